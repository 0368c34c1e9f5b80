/** `keystile import`: imports keys that were hashed elsewhere straight into a database file. */
import type { Command } from "commander";
import type { Keyring } from "../../keyring/keyring.js";
import { addDatabaseFlags, type DatabaseFlags, filesOf, withKeyring } from "../database/database.js";
import type { Frame } from "../import/batches.js";
import { openKeys } from "../import/key-source.js";
import { addImportFlags, type ImportFlags, runImport, type Target } from "../import/run.js";
import type { CommandResult } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";

const HELP = `
Keys come as for \`keystile api keys migrate-keys\`, and may have two fields more: "createdAt" (Unix milliseconds) and "prefix".
A row that is no valid key stops nothing: it fails with its line and the reason. Ctrl-C lets the batch under way finish. Run again,
keys that went in already fail as ALREADY_EXISTS. Servers that have the file open see the keys with their next request.

Example:
  $ keystile import --db keys.db --migration-id mig_… --api-id api_… --keys @old-keys.ndjson --failures failed.ndjson`;

type Flags = DatabaseFlags & ImportFlags & Frame & { readonly keys: string };

export function addImportCommand(program: Command, io: Io, result: CommandResult): void {
  const command = addDatabaseFlags(program.command("import"))
    .description("Import keys that were hashed elsewhere into a database file, without a server.")
    .requiredOption("--migration-id <id>", "of `keystile migrations create`")
    .requiredOption("--api-id <id>", "the API that the keys are imported into")
    .requiredOption("--keys <json>", "JSON, @file or -");
  addImportFlags(command)
    .addHelpText("after", wrapped(HELP))
    .action(async (flags: Flags) => {
      const { db, output, keys, migrationId, apiId } = flags;
      const frame = { migrationId, apiId };
      result.exitCode = await withKeyring(db, async (keyring) =>
        runImport({
          io,
          frame,
          source: await openKeys(io, keys),
          from: keys,
          targetFiles: filesOf(db),
          flags,
          target: createTarget(keyring, frame),
          isJson: output === "json",
        }),
      );
    });
}

function createTarget(keyring: Keyring, frame: Frame): Target {
  return {
    isService: false,
    async send({ rows }) {
      const { migrated, failed } = await keyring.migrateKeys({ ...frame, keys: rows.map(({ key }) => key) });
      return { migrated, failed, isUncertain: false };
    },
  };
}
