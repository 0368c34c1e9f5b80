/** `keystile api keys migrate-keys`: a small import in one request, a large one in batches that can be repeated. */
import type { Command } from "commander";
import type { Operation } from "../../http/operations/operation.js";
import { refusal } from "../client/client.js";
import { assertOneStdin, type Flag } from "../client/flags.js";
import { exitCodeOfData, printAnswer, printRefusal } from "../client/print.js";
import { callWithRetry, type Stop } from "../client/retry.js";
import { readBody, readCredential } from "../client/send.js";
import type { GlobalFlags, Settings } from "../client/settings.js";
import { type Batch, type Frame, toBatches } from "../import/batches.js";
import { type KeySource, openKeys } from "../import/key-source.js";
import { startProgress } from "../import/progress.js";
import {
  createListing,
  type FailureFile,
  type Listing,
  NO_FAILURE_FILE,
  NO_LISTING,
  openFailureFile,
  readMigration,
} from "../import/report.js";
import { type CommandResult, EXIT, type ExitCode, usage } from "../io/failures.js";
import { chain } from "../io/input.js";
import type { Io } from "../io/io.js";
import { toInteger } from "../io/parsers.js";
import { count, note } from "../io/text.js";

const HELP = `
Keys come as a JSON array, as @file.json that holds one, or one key a line (@file.ndjson, or - for stdin). All keys of an array or
a file are checked before any is sent. More than a batch is sent in several requests; their answers are printed as one, under the
request id of the first. Ctrl-C lets the request under way finish. Run again, keys that went in already come back in "failed".`;

interface Given {
  readonly migrationId?: string;
  readonly apiId?: string;
  readonly keys?: string;
  readonly batchSize: number;
  readonly retries: number;
  readonly failures?: string;
}

/** Adds the flags and the action of the command. */
export function addMigrateKeys(
  command: Command,
  operation: Operation,
  flags: readonly Flag[],
  io: Io,
  result: CommandResult,
): void {
  command
    .optionsGroup("Flags for large imports:")
    .option("--batch-size <keys>", "keys a request, 1–10000", toInteger(1, 10_000), 500)
    .option(
      "--retries <times>",
      "how often a request is tried again after 429, 5xx or a network failure, 0–20",
      toInteger(0, 20),
      6,
    )
    .option("--failures <file>", "write the keys that failed here, one a line, to be mended and given again")
    .addHelpText("after", HELP)
    .action(async (given: Given) => {
      const globals = command.optsWithGlobals<GlobalFlags>();
      assertOneStdin(globals, flags, { ...given });
      const settings = await readCredential(io, globals);
      const source = await openSource(io, operation, globals, flags, given);
      result.exitCode = await migrate({ io, globals, settings, name: operation.name, given }, source);
    });
}

interface Source {
  readonly frame: Partial<Frame>;
  readonly keys: KeySource;
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
    return { frame, keys: { list: keys } };
  }
  const { migrationId, apiId, keys } = given;
  const frame = { ...(migrationId !== undefined && { migrationId }), ...(apiId !== undefined && { apiId }) };
  // Validation reports everything that is missing.
  if (keys === undefined) operation.validate(frame);
  return { frame, keys: await openKeys(io, keys ?? "") };
}

/** Shared by all steps of one import. */
interface Job {
  readonly io: Io;
  readonly globals: GlobalFlags;
  readonly settings: Settings;
  readonly name: string;
  readonly given: Given;
}

async function migrate(job: Job, { frame, keys }: Source): Promise<ExitCode> {
  const { io, given } = job;
  const total = await validateAll(job, frame, keys);
  const failures =
    given.failures === undefined
      ? NO_FAILURE_FILE
      : await openFailureFile(given.failures, job.globals.body ?? given.keys ?? "");
  const stop = listenForStop(io);
  const batches = toBatches(frame, keys, given.batchSize)[Symbol.asyncIterator]();
  try {
    const first = await batches.next();
    const second = await batches.next();
    if (first.done === true) throw usage("--keys: holds no key");
    if (second.done === true) return await sendOne(job, first.value, failures, stop);
    return await sendAll(job, chain([first.value, second.value], batches), { total, failures, stop });
  } finally {
    stop.end();
    // Closes the file of the keys if not all of it was read.
    await batches.return?.();
    await failures.close();
  }
}

/** Validates all keys first, if they can be read twice, so that nothing of an invalid import is sent. */
async function validateAll({ io, given }: Job, frame: Partial<Frame>, keys: KeySource): Promise<number> {
  if ("list" in keys) return keys.list.length;
  if (!keys.isRepeatable) return 0;
  const progress = startProgress(io, "reading", 0);
  let total = 0;
  try {
    for await (const batch of toBatches(frame, keys, given.batchSize)) {
      total += batch.keys.length;
      progress.update(total);
    }
  } finally {
    progress.stop();
  }
  return total;
}

/** Sends a small import as one request and prints the response unchanged. */
async function sendOne(job: Job, batch: Batch, failures: FailureFile, stop: Stop): Promise<ExitCode> {
  const { io, globals, settings, name, given } = job;
  const { answer } = await callWithRetry(io, settings, { name, body: batch.body }, { retries: given.retries, stop });
  if (!answer.ok) {
    await printRefusal(io, globals, answer);
    throw refusal(answer);
  }
  const { data } = answer.envelope;
  await failures.add(batch.keys, readMigration(data).failed);
  await printAnswer(io, globals, answer.envelope);
  return exitCodeOfData(data);
}

interface Totals {
  requests: number;
  migrated: number;
  failed: number;
  /** A request succeeded only when retried: some of its keys may have been inserted by the first try. */
  isUncertain: boolean;
}

async function sendAll(
  job: Job,
  batches: AsyncIterable<Batch>,
  { total, failures, stop }: { readonly total: number; readonly failures: FailureFile; readonly stop: Stop },
): Promise<ExitCode> {
  const { io, globals } = job;
  const began = io.now();
  const totals: Totals = { requests: 0, migrated: 0, failed: 0, isUncertain: false };
  const isEnvelope = globals.output === "json";
  const listing = isEnvelope || !io.stdout.isTTY ? createListing(io, isEnvelope) : NO_LISTING;
  const progress = startProgress(io, "migrating", total);
  let isWhole = false;
  try {
    for await (const batch of batches) {
      if (stop.isWished()) break;
      await sendBatch(job, batch, totals, { listing, failures, stop });
      progress.update(totals.migrated + totals.failed);
    }
    isWhole = !stop.isWished();
  } finally {
    progress.stop();
    await listing.end();
    await summarise(io, totals, { total, isWhole, milliseconds: io.now() - began });
  }
  return isWhole && totals.failed === 0 ? EXIT.done : EXIT.no;
}

async function sendBatch(
  { io, settings, name, given, globals }: Job,
  batch: Batch,
  totals: Totals,
  { listing, failures, stop }: { readonly listing: Listing; readonly failures: FailureFile; readonly stop: Stop },
): Promise<void> {
  const { answer, isUncertain } = await callWithRetry(
    io,
    settings,
    { name, body: batch.body },
    { retries: given.retries, stop },
  );
  if (!answer.ok) {
    if (totals.requests === 0) await printRefusal(io, globals, answer);
    throw refusal(answer);
  }
  const { meta, data } = answer.envelope;
  const { migrated, failed } = readMigration(data);
  totals.requests++;
  totals.migrated += migrated.length;
  totals.failed += failed.length;
  totals.isUncertain ||= isUncertain && failed.length > 0;
  await failures.add(batch.keys, failed);
  await listing.add(meta.requestId, { migrated, failed });
}

async function summarise(
  io: Io,
  { requests, migrated, failed, isUncertain }: Totals,
  {
    total,
    isWhole,
    milliseconds,
  }: { readonly total: number; readonly isWhole: boolean; readonly milliseconds: number },
): Promise<void> {
  const done = migrated + failed;
  const of = isWhole || total === 0 ? "" : ` of ${count(total)}`;
  const seconds = (milliseconds / 1_000).toFixed(1);
  const sent = `${count(requests)} ${requests === 1 ? "request" : "requests"}`;
  await note(
    io,
    `${count(done)}${of} keys: ${count(migrated)} migrated, ${count(failed)} failed; ${sent}, ${seconds} s`,
  );
  if (isUncertain)
    await note(io, "a request had to be sent twice: some of the failed keys may have gone in the first time");
  if (!isWhole)
    await note(
      io,
      'not all were sent; run the same command again to go on: keys that went in already come back in "failed"',
    );
}

function listenForStop(io: Io): Stop & { readonly end: () => void } {
  let isWished = false;
  let requestStop: () => void = () => undefined;
  const wished = new Promise<void>((resolve) => {
    requestStop = resolve;
  });
  const end = io.onStop(() => {
    isWished = true;
    requestStop();
  });
  return { isWished: () => isWished, wished, end };
}
