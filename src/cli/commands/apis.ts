/**
 * `keystile apis list` and `keystile keys list|get`, on the database file: which API is which, and whose keys are
 * where.
 */
import type { Command } from "commander";
import type { Keyring } from "../../keyring/keyring.js";
import type { KeyResponseData, Page, V2ApisGetApiResponseData } from "../../keyring/schemas/responses.js";
import { addDatabaseFlags, type DatabaseFlags, withKeyringFor } from "../database/database.js";
import type { FlagAliases } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { note, oneLine, pretty, toJson } from "../io/text.js";

const FLAG_ALIASES: FlagAliases = new Map([
  ["apiId", "--api-id"],
  ["keyId", "<keyId>"],
]);

/** Adds both commands. */
export function addApisCommands(program: Command, io: Io): void {
  const apis = program.command("apis").description("APIs of a database file.");
  addDatabaseFlags(apis.command("list"))
    .description("List the APIs: id, whether it is enabled, name.")
    .addHelpText("after", wrapped("\nExample:\n  $ keystile apis list --db keys.db"))
    .action((flags: DatabaseFlags) => list(io, flags, (keyring, page) => keyring.listApis(page), apiLine));
  const keys = program.command("keys").description("Keys of a database file, each with the API that it belongs to.");
  addDatabaseFlags(keys.command("list"))
    .requiredOption("--api-id <id>", "the API, as `keystile apis list` shows it")
    .description("List the keys of an API: id, API, first characters, name.")
    .addHelpText("after", wrapped("\nExample:\n  $ keystile keys list --db keys.db --api-id api_…"))
    .action((flags: DatabaseFlags & { readonly apiId: string }) =>
      list(io, flags, (keyring, page) => keyring.listKeys({ apiId: flags.apiId, ...page }), keyLine),
    );
  addDatabaseFlags(keys.command("get"))
    .argument("<keyId>", "its id")
    .description("Show a key, and the API that it belongs to.")
    .addHelpText("after", wrapped("\nExample:\n  $ keystile keys get --db keys.db key_…"))
    .action(async (keyId: string, { db }: DatabaseFlags) => {
      const key = await withKeyringFor(db, FLAG_ALIASES, (keyring) => keyring.getKey({ keyId }));
      await io.stdout.write(`${pretty(key)}\n`);
    });
}

/** Writes page by page, so that a list of any length needs the memory of one; until the reader has left. */
async function list<T>(
  io: Io,
  { db, output }: DatabaseFlags,
  read: (keyring: Keyring, page: { readonly cursor?: string }) => Promise<Page<T>>,
  toLine: (row: T) => string,
): Promise<void> {
  await withKeyringFor(db, FLAG_ALIASES, async (keyring) => {
    let rows = 0;
    let cursor: string | undefined;
    do {
      const page = await read(keyring, cursor === undefined ? {} : { cursor });
      // Not before: what is refused prints nothing.
      if (output === "json" && cursor === undefined) await io.stdout.write("[");
      for (const row of page.data) {
        if (io.stdout.isClosed()) return undefined;
        const text = output === "json" ? `${rows > 0 ? "," : ""}\n${toJson(row)}` : `${oneLine(toLine(row))}\n`;
        await io.stdout.write(text);
        rows++;
      }
      cursor = page.pagination.hasMore ? page.pagination.cursor : undefined;
    } while (cursor !== undefined);
    if (output === "json") return io.stdout.write("\n]\n");
    return rows === 0 ? note(io, "there are none") : undefined;
  });
}

const apiLine = ({ id, enabled, name }: V2ApisGetApiResponseData): string =>
  [id, enabled ? "enabled" : "disabled", name].join("  ");

const keyLine = ({ keyId, apiId, start, enabled, name, identity }: KeyResponseData): string =>
  [keyId, apiId, `${start}…`, enabled ? "enabled" : "disabled", identity?.externalId ?? "-", name ?? "-"].join("  ");
