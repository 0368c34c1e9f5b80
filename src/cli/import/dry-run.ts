/** `--dry-run`: an import into a target that writes nothing; and what of the fields of its keys carries over. */
import { EXIT, type ExitCode, failure } from "../io/failures.js";
import type { Io } from "../io/io.js";
import { count, note, oneLine, pretty } from "../io/text.js";
import { toBatches } from "./batches.js";
import type { Carryover, Format } from "./formats.js";
import { openReport } from "./report.js";
import { type Job, listenForStop, sendRows } from "./run.js";

/** @param job whose target writes nothing @returns 0, or 1 if a key would fail */
export async function dryRun(job: Job, { columns }: Format, carryover: Carryover): Promise<ExitCode> {
  const { io, source } = job;
  const report = await openReport(io, {}, source, []);
  const totals = { ready: 0, failed: 0 };
  const stop = listenForStop(io);
  try {
    for await (const batch of toBatches(job.frame, source, job.flags.batchSize, true)) {
      const { migrated, failed } = await sendRows(job, batch, stop);
      totals.ready += migrated.length;
      totals.failed += failed.length + batch.invalid.length;
      await report.add(batch, { migrated, failed });
      if (stop.isWished()) throw failure(EXIT.no, "stopped; nothing was written");
    }
  } finally {
    stop.end();
    await report.end();
  }
  const [carried, lost] = [Object.fromEntries(carryover.carried), Object.fromEntries(carryover.lost)];
  await io.stdout.write(job.isJson ? `${pretty({ ...totals, carried, lost })}\n` : toText(totals, carryover, columns));
  return totals.failed === 0 ? EXIT.done : EXIT.no;
}

function toText(
  totals: { ready: number; failed: number },
  { carried, lost }: Carryover,
  columns: Format["columns"],
): string {
  const fields = [...carried].map(([field, keys]): [string, number] => [
    columns[field] === undefined ? field : `${columns[field]} → ${field}`,
    keys,
  ]);
  return [
    `${count(totals.ready)} keys would go in, ${count(totals.failed)} would fail; nothing was written`,
    "",
    ...section("carries over", fields),
    ...section("does not carry over", [...lost]),
    "",
  ].join("\n");
}

const WIDTH = 11;

function section(title: string, counts: readonly (readonly [name: string, keys: number])[]): string[] {
  if (counts.length === 0) return [];
  return [
    `${"KEYS".padStart(WIDTH)}  ${title}`,
    ...counts.map(([name, keys]) => `${count(keys).padStart(WIDTH)}  ${oneLine(name)}`),
  ];
}

/** After an import, what was lost by it. */
export async function noteLost(io: Io, { lost }: Carryover): Promise<void> {
  for (const line of section("did not carry over", [...lost])) await note(io, line);
}
