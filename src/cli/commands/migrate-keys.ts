/** `keystile api keys migrate-keys`: an import into a service, in requests that can be repeated. */
import type { Command } from "commander";
import type { Operation } from "../../http/operations/operation.js";
import { type Envelope, refusal } from "../client/client.js";
import { assertOneStdin, type Flag } from "../client/flags.js";
import { exitCodeOfData, printAnswer, printRefusal } from "../client/print.js";
import { callWithRetry } from "../client/retry.js";
import { readBody, readCredential } from "../client/send.js";
import type { GlobalFlags, Settings } from "../client/settings.js";
import type { Frame } from "../import/batches.js";
import { type KeySource, ofList, openKeys } from "../import/key-source.js";
import { addImportFlags, type ImportFlags, runImport, type Target } from "../import/run.js";
import { type CommandResult, EXIT, failure } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { toInteger } from "../io/parsers.js";

const HELP = `
Keys come as a JSON array, as @file.json that holds one, or one key a line (@file.ndjson, or - for stdin). A row that is no valid
key stops nothing: it fails with its line and the reason. With --body the request is valid as a whole or refused.

Up to 500 valid keys are one request, and its answer is printed. More are sent in several requests and counted; --successes lists
them. Ctrl-C lets the request under way finish. Run again, keys that went in already come back as failed.`;

interface Given extends ImportFlags {
  readonly migrationId?: string;
  readonly apiId?: string;
  readonly keys?: string;
  readonly retries: number;
}

/** Adds the flags and the action of the command. */
export function addMigrateKeys(
  command: Command,
  operation: Operation,
  flags: readonly Flag[],
  io: Io,
  result: CommandResult,
): void {
  addImportFlags(command.optionsGroup("Flags for large imports:"))
    .option(
      "--retries <times>",
      "how often a request is tried again after 429, 5xx or a network failure, 0–20",
      toInteger(0, 20),
      6,
    )
    .addHelpText("after", wrapped(HELP))
    .action(async (given: Given) => {
      const globals = command.optsWithGlobals<GlobalFlags>();
      assertOneStdin(globals, flags, { ...given });
      const settings = await readCredential(io, globals);
      const opened = await openSource(io, operation, globals, flags, given);
      result.exitCode = await runImport({
        io,
        ...opened,
        from: globals.body ?? given.keys ?? "",
        flags: given,
        target: createTarget(io, globals, settings, operation.name, given.retries),
        isJson: globals.output === "json",
      });
    });
}

interface Source {
  readonly frame: Partial<Frame>;
  readonly source: KeySource;
}

async function openSource(
  io: Io,
  operation: Operation,
  globals: GlobalFlags,
  flags: readonly Flag[],
  given: Given,
): Promise<Source> {
  if (globals.body !== undefined) {
    const body = await readBody(io, globals, flags, { ...given });
    operation.validate(body);
    const { keys, ...frame } = body as Frame & { readonly keys: readonly unknown[] };
    return { frame, source: ofList(keys) };
  }
  const { migrationId, apiId, keys } = given;
  const frame = { ...(migrationId !== undefined && { migrationId }), ...(apiId !== undefined && { apiId }) };
  // Validation reports everything that is missing.
  if (keys === undefined) operation.validate(frame);
  return { frame, source: await openKeys(io, keys ?? "") };
}

/** The service tells which hashes failed, and not why. */
const NOT_MIGRATED = {
  reason: "NOT_MIGRATED",
  message:
    "the service did not take it: its hash exists already or is none of the migration's algorithm, or a role does not exist",
};

function createTarget(io: Io, globals: GlobalFlags, settings: Settings, name: string, retries: number): Target {
  let requests = 0;
  return {
    isService: true,
    async send({ body }, stop) {
      const { answer, isUncertain } = await callWithRetry(io, settings, { name, body }, { retries, stop });
      if (!answer.ok) {
        if (requests === 0) await printRefusal(io, globals, answer);
        throw refusal(answer);
      }
      requests++;
      const { envelope } = answer;
      const { migrated, failed } = readMigration(envelope);
      return {
        migrated,
        failed: failed.map((hash) => ({ hash, ...NOT_MIGRATED })),
        requestId: envelope.meta.requestId,
        isUncertain,
        async print() {
          await printAnswer(io, globals, envelope);
          return exitCodeOfData(envelope.data);
        },
      };
    },
  };
}

/** `data` of one response of `keys.migrateKeys`. */
interface MigrationData {
  readonly migrated: readonly { readonly hash: string; readonly keyId: string }[];
  readonly failed: readonly string[];
}

/** @throws failure 3 if the server returned something else */
function readMigration({ data }: Envelope): MigrationData {
  const { migrated, failed } = (data ?? {}) as Partial<MigrationData>;
  if (Array.isArray(migrated) && Array.isArray(failed)) return { migrated, failed };
  throw failure(
    EXIT.failed,
    "the server answered without `migrated` and `failed`; is the address that of this service?",
  );
}
