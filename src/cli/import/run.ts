/** Runs an import, into a service or a file: reads, sends batch by batch, and says what became of the keys. */
import type { Command } from "commander";
import type { Stop } from "../client/retry.js";
import { EXIT, type ExitCode } from "../io/failures.js";
import { chain } from "../io/input.js";
import type { Io } from "../io/io.js";
import { toInteger } from "../io/parsers.js";
import { count, note, pretty, stripControlChars } from "../io/text.js";
import { type Batch, type Frame, toBatches } from "./batches.js";
import type { KeySource } from "./key-source.js";
import { startProgress } from "./progress.js";
import { openReport, type OtherFile, type Outcome, type Report, type ReportFlags } from "./report.js";

/** Keys that an answer is printed of as it came: more are counted. */
const MAX_PRINTED = 500;

/** Flags of every import. */
export interface ImportFlags extends ReportFlags {
  readonly batchSize: number;
}

/** Adds {@link ImportFlags}. */
export function addImportFlags(command: Command): Command {
  return command
    .option("--batch-size <keys>", "keys a step, 1–10000", toInteger(1, 10_000), 500)
    .option(
      "--failures <file>",
      "write the keys that failed here, one a line with its line and the reason, to be mended and given again",
    )
    .option("--successes <file>", "append the keys that went in here, one a line, with hash and keyId");
}

/** Where the keys go. */
export interface Target {
  /** Whether it is a service: it takes the fields of the specification alone, and its answers come in envelopes. */
  readonly isService: boolean;
  /** @throws whatever ends the import: what was sent before it is reported */
  send(batch: Batch, stop: Stop): Promise<Sent>;
}

/** What became of a batch. */
export interface Sent extends Outcome {
  /** Of the request, if there was one. */
  readonly requestId?: string;
  /** A request succeeded only when retried: some of its keys may have been inserted by the first try. */
  readonly isUncertain: boolean;
  /** Prints the answer as it came, and tells the exit code: used if it is the only one and short. */
  readonly print?: () => Promise<ExitCode>;
}

/** One import. */
export interface Job {
  readonly io: Io;
  readonly frame: Partial<Frame>;
  readonly source: KeySource;
  /** `--keys` or `--body` as given. */
  readonly from: string;
  /** Files of the target, which no report may be written over. */
  readonly targetFiles?: readonly string[];
  readonly flags: ImportFlags;
  readonly target: Target;
  /** Whether `--output json` was given. */
  readonly isJson: boolean;
}

/** @returns 0, or 1 if a key failed or not all were sent */
export async function runImport(job: Job): Promise<ExitCode> {
  const { io, flags, source } = job;
  const batches = toBatches(job.frame, source, flags.batchSize, !job.target.isService)[Symbol.asyncIterator]();
  let report: Report | undefined;
  const stop = listenForStop(io);
  try {
    // What is refused as a whole is refused before a file is made.
    const first = await batches.next();
    const second = await batches.next();
    if (first.done === true) return EXIT.done;
    const total = await countAll(job, second.done === true ? first.value : undefined);
    report = await openReport(io, flags, source, othersOf(job));
    const isShort = second.done === true && first.value.rows.length <= MAX_PRINTED && first.value.invalid.length === 0;
    if (isShort && flags.successes === undefined) return await sendShort(job, first.value, report, stop);
    const all = second.done === true ? [first.value] : [first.value, second.value];
    return await sendAll(job, chain(all, batches), { total, report, stop });
  } finally {
    stop.end();
    // Closes the file of the keys if not all of it was read.
    await batches.return?.();
    await report?.end();
  }
}

/** Writing to these would destroy the keys that are read, or those that are kept. */
function othersOf({ from, targetFiles = [] }: Job): readonly OtherFile[] {
  const own = targetFiles.map((path) => ({ path, what: "a file of the database" }));
  return from.startsWith("@") ? [{ path: from.slice(1), what: "the file that the keys come from" }, ...own] : own;
}

/** For the progress bar; 0: not known. @param only the batch, if there is but one */
async function countAll({ io, source }: Job, only: Batch | undefined): Promise<number> {
  if (only !== undefined) return only.rows.length + only.invalid.length;
  const progress = startProgress(io, "reading", 0);
  const total = (await source.count?.()) ?? 0;
  progress.stop();
  return total;
}

interface Totals {
  /** Batches that were sent. */
  sent: number;
  requests: number;
  migrated: number;
  failed: number;
  isUncertain: boolean;
  requestId?: string;
}

interface Run {
  /** Rows; 0: not known. */
  readonly total: number;
  readonly report: Report;
  readonly stop: Stop;
}

/** Sends a small import as one request; the answer is printed unchanged where the target has one. */
async function sendShort(job: Job, batch: Batch, report: Report, stop: Stop): Promise<ExitCode> {
  const sent = await job.target.send(batch, stop);
  await report.add(batch, sent);
  if (sent.print !== undefined) return sent.print();
  const totals = { migrated: sent.migrated.length, failed: sent.failed.length };
  await job.io.stdout.write(`${pretty(toData(job, totals))}\n`);
  return totals.failed === 0 ? EXIT.done : EXIT.no;
}

async function sendAll(job: Job, batches: AsyncIterable<Batch>, { total, report, stop }: Run): Promise<ExitCode> {
  const { io } = job;
  const began = io.now();
  const totals: Totals = { sent: 0, requests: 0, migrated: 0, failed: 0, isUncertain: false };
  const progress = startProgress(io, "migrating", total);
  let isWhole = false;
  try {
    for await (const batch of batches) {
      if (stop.isWished()) break;
      await sendOne(job, batch, totals, { total, report, stop });
      progress.update(totals.migrated + totals.failed);
    }
    isWhole = !stop.isWished();
  } finally {
    progress.stop();
    await printTotals(job, totals);
    await summarise(io, totals, { total, isWhole, milliseconds: io.now() - began });
  }
  return isWhole && totals.failed === 0 ? EXIT.done : EXIT.no;
}

async function sendOne(job: Job, batch: Batch, totals: Totals, { report, stop }: Run): Promise<void> {
  const sent = await sendRows(job, batch, stop);
  if (sent.requestId !== undefined) {
    totals.requests++;
    if (totals.requestId === undefined) await beginOutput(job, sent.requestId);
    totals.requestId ??= sent.requestId;
  }
  totals.sent++;
  totals.migrated += sent.migrated.length;
  totals.failed += sent.failed.length + batch.invalid.length;
  totals.isUncertain ||= sent.isUncertain && sent.failed.length > 0;
  await report.add(batch, sent);
}

const NONE: Sent = { migrated: [], failed: [], isUncertain: false };

/** Sends the keys of a batch, if it has any. */
export async function sendRows({ target }: Job, batch: Batch, stop: Stop): Promise<Sent> {
  return batch.rows.length === 0 ? NONE : target.send(batch, stop);
}

/** A terminal gets the line of {@link summarise} alone. */
const isPrinted = ({ io, isJson }: Job): boolean => isJson || !io.stdout.isTTY;

/** The request id is printed as soon as there is one, the data at the end. */
async function beginOutput(job: Job, requestId: string): Promise<void> {
  if (isPrinted(job) && !job.isJson) await job.io.stdout.write(`${stripControlChars(requestId)}\n`);
}

async function printTotals(job: Job, { sent, requestId, migrated, failed }: Totals): Promise<void> {
  if (sent === 0 || !isPrinted(job)) return;
  const data = toData(job, { migrated, failed });
  const envelope = { meta: { ...(requestId !== undefined && { requestId }) }, data };
  await job.io.stdout.write(`${pretty(job.isJson && job.target.isService ? envelope : data)}\n`);
}

/** How many keys went in and failed, and the files that list them. */
function toData(
  { flags: { failures, successes } }: Job,
  totals: { readonly migrated: number; readonly failed: number },
) {
  return { ...totals, ...(successes !== undefined && { successes }), ...(failures !== undefined && { failures }) };
}

async function summarise(
  io: Io,
  { sent, requests, migrated, failed, isUncertain }: Totals,
  { total, isWhole, milliseconds }: Pick<Run, "total"> & { readonly isWhole: boolean; readonly milliseconds: number },
): Promise<void> {
  const of = isWhole || total === 0 ? "" : ` of ${count(total)}`;
  const steps = requests > 0 ? plural(requests, "request") : plural(sent, "batch", "batches");
  const seconds = (milliseconds / 1_000).toFixed(1);
  await note(
    io,
    `${count(migrated + failed)}${of} keys: ${count(migrated)} migrated, ${count(failed)} failed; ${steps}, ${seconds} s`,
  );
  if (isUncertain)
    await note(io, "a request had to be sent twice: some of the failed keys may have gone in the first time");
  if (!isWhole)
    await note(
      io,
      'not all were sent; run the same command again to go on: keys that went in already come back as "failed"',
    );
}

const plural = (number: number, one: string, many = `${one}s`): string =>
  `${count(number)} ${number === 1 ? one : many}`;

/** Whether Ctrl-C was pressed: the batch under way is finished then. */
export function listenForStop(io: Io): Stop & { readonly end: () => void } {
  let isWished = false;
  let requestStop: () => void = () => undefined;
  const wished = new Promise<void>((resolve) => (requestStop = resolve));
  const end = io.onStop(() => {
    isWished = true;
    requestStop();
  });
  return { isWished: () => isWished, wished, end };
}
