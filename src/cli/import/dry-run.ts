/** `--dry-run`: reads and validates all keys of an import and writes nothing; and what of their fields carries over. */
import { readHash } from "../../keyring/import/imported-hash.js";
import { createAlgorithms } from "../../lib/migration-hashes.js";
import { EXIT, type ExitCode } from "../io/failures.js";
import type { Io } from "../io/io.js";
import { count, note, oneLine, pretty } from "../io/text.js";
import { type Batch, toBatches } from "./batches.js";
import type { Carryover, Format } from "./formats.js";
import { openReport } from "./report.js";
import type { Job } from "./run.js";

const INVALID_HASH = { reason: "INVALID_HASH", message: "the hash is not one of the algorithm" };

/** @returns 0, or 1 if a key would fail */
export async function dryRun(
  { io, frame, source, flags, isJson }: Omit<Job, "target">,
  format: Format,
  carryover: Carryover,
): Promise<ExitCode> {
  const report = await openReport(io, {}, source.unit, []);
  const totals = { ready: 0, failed: 0 };
  for await (const batch of toBatches(frame, source, flags.batchSize, true)) {
    const failed = wrongHashes(batch, format);
    totals.ready += batch.rows.length - failed.length;
    totals.failed += failed.length + batch.invalid.length;
    await report.add(batch, { migrated: [], failed });
  }
  await report.end();
  if (isJson) await io.stdout.write(`${pretty({ ...totals, ...toCounts(carryover) })}\n`);
  else await io.stdout.write(toText(totals, carryover, format));
  return totals.failed === 0 ? EXIT.done : EXIT.no;
}

function wrongHashes({ rows }: Batch, { algorithm }: Format) {
  if (algorithm === undefined) return [];
  const algorithms = createAlgorithms();
  return rows.flatMap(({ key: { hash } }) =>
    readHash(algorithms, algorithm, hash) === undefined ? [{ hash, ...INVALID_HASH }] : [],
  );
}

const toCounts = ({ carried, lost }: Carryover) => ({
  carried: Object.fromEntries(carried),
  lost: Object.fromEntries(lost),
});

function toText(totals: { ready: number; failed: number }, { carried, lost }: Carryover, { columns }: Format): string {
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
