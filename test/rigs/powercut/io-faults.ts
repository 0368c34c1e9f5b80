/**
 * The rig of a failing disk: the n-th write, truncation or sync fails, with EIO or ENOSPC, once or several times in a
 * row. What was acknowledged must be in the file afterwards, and on the disk after a power cut; errors are typed; the
 * store goes on. A143.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { dice } from "../../model/dice.js";
import { countAcks, IN_FLIGHT, noAcks, prepare } from "../kill.js";
import { buildWorker, nextMessage, rigFolder, startWorker, ended } from "../workers.js";
import type { IoOrders } from "../workers/io-faults.js";
import { examine } from "./cuts.js";
import { createDisk } from "./disk.js";
import { buildRecorder, readRecord } from "./record.js";

export interface IoFault {
  /** The call that fails, counted from 1. */
  readonly at: number;
  /** How many in a row. */
  readonly count: number;
  readonly errno: "EIO" | "ENOSPC" | "EDQUOT";
}

export interface IoReport {
  readonly runs: number;
  /** Runs in which a call to the store failed: the others met a fault that SQLite could do without. */
  readonly felt: number;
  readonly acknowledged: number;
  /** Codes of the errors, and how often. */
  readonly codes: Readonly<Record<string, number>>;
  /** What must not be: empty. */
  readonly problems: readonly string[];
  readonly seconds: number;
}

const ERRNO = { EIO: 5, ENOSPC: 28, EDQUOT: 122 };
const CUTS_A_RUN = 4;

export async function runIoFaults(faults: readonly IoFault[], stopAfter = 640): Promise<IoReport> {
  const folder = rigFolder();
  const worker = await buildWorker("io-faults");
  const library = buildRecorder(folder);
  const begun = performance.now();
  const totals = { felt: 0, acknowledged: 0 };
  const codes: Record<string, number> = {};
  const problems: string[] = [];
  try {
    for (const fault of faults) {
      const watched = join(mkdtempSync(join(folder, "run-")), "watched");
      mkdirSync(watched);
      const file = join(watched, "keys.db");
      const { made } = await prepare(file);
      const before = new Map([[file, readFileSync(file)]]);
      const ids = made.map(({ keyId }) => keyId);
      const orders: IoOrders = {
        file,
        keys: made.map(({ key }) => key),
        acks: join(watched, "acks"),
        inFlight: IN_FLIGHT,
        stopAfter,
      };
      const log = join(folder, "record");
      const child = startWorker(worker, orders, {
        LD_PRELOAD: library,
        TEST_RECORD: log,
        TEST_RECORD_FOLDER: `${watched}/`,
        TEST_FAIL_AT: String(fault.at),
        TEST_FAIL_COUNT: String(fault.count),
        TEST_FAIL_ERRNO: String(ERRNO[fault.errno]),
      });
      const report = (await nextMessage(child)) as unknown as {
        acknowledged: number;
        failed: number;
        codes: Record<string, number>;
      };
      await ended(child);
      const where = `${fault.errno} at ${fault.at} (${fault.count})`;
      totals.acknowledged += report.acknowledged;
      if (report.failed > 0) totals.felt++;
      for (const [code, count] of Object.entries(report.codes)) {
        codes[code] = (codes[code] ?? 0) + count;
        if (!code.startsWith("STORE_")) problems.push(`${where}: ${code}`);
      }
      const acks = countAcks(readFileSync(orders.acks), noAcks());
      const judge = (path: string, when: string): void => {
        const verdict = examine(path, ids, acks);
        if (typeof verdict === "string") problems.push(`${where}, ${when}: ${verdict}`);
        else if (verdict.lost > 0)
          problems.push(`${where}, ${when}: ${verdict.lost} acknowledged deductions are missing`);
        else if (verdict.unanswered > report.failed)
          problems.push(`${where}, ${when}: ${verdict.unanswered} deducted without an answer, ${report.failed} failed`);
      };
      for (const image of imagesAfter(log, before, fault.at)) {
        const path = join(mkdtempSync(join(tmpdir(), "keystile-cut-")), "keys.db");
        for (const [name, bytes] of image) writeFileSync(join(path, "..", basename(name)), bytes);
        judge(path, "after a power cut");
        rmSync(join(path, ".."), { recursive: true });
      }
      judge(file, "afterwards");
      rmSync(log);
    }
    return { runs: faults.length, ...totals, codes, problems, seconds: (performance.now() - begun) / 1_000 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

/** What power cuts at the end of the run may leave. */
function imagesAfter(log: string, before: ReadonlyMap<string, Buffer>, seed: number): Map<string, Buffer>[] {
  const disk = createDisk(before);
  for (const event of readRecord(log)) if (!event.file.endsWith("/acks")) disk.apply(event);
  const rolled = dice(seed);
  return Array.from({ length: CUTS_A_RUN }, () => disk.cut(rolled));
}

/** Faults all along a run: every n-th call, both errors, once and three times in a row. */
export function spread(count: number, last: number): IoFault[] {
  return Array.from({ length: count }, (_, i) => ({
    at: 1 + Math.floor((i * last) / count),
    count: i % 3 === 2 ? 3 : 1,
    errno: i % 2 === 0 ? "EIO" : "ENOSPC",
  }));
}
