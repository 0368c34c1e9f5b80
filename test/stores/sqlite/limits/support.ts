/** Limiters in files, for the suite and for tests of their own. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { LimitCheck, Limiter } from "../../../../src/contracts/limiter.js";
import { sqliteLimiter, type SqliteLimiter, type SqliteLimiterOptions } from "../../../../src/stores/sqlite/index.js";
import { inspect } from "../support.js";

/** A time of the tests, and lengths of time. */
export const NOW = 1_700_000_000_000;
export const HOUR = 3_600_000;

export const check = (bucket: string, over: Partial<LimitCheck> = {}): LimitCheck => ({
  bucket,
  limit: 1,
  duration: HOUR,
  cost: 1,
  ...over,
});

/**
 * Makes limiters for the suite, each through `handles` handles in turn. Files are emptied and used again, in memory
 * where the system has a folder for that: the suite asks for thousands.
 */
export function limitersOnFiles(handles: number): () => Limiter {
  const parent = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
  const folder = mkdtempSync(join(parent, "keystile-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const emptied: string[] = [];
  let files = 0;
  return () => {
    const path = emptied.pop() ?? join(folder, `${++files}.db`);
    const opened = Array.from({ length: handles }, () => sqliteLimiter({ path }));
    let turn = 0;
    return {
      take: (...given) => opened[turn++ % handles]!.take(...given),
      async close() {
        for (const one of opened) await one.close();
        empty(path);
        emptied.push(path);
      },
    };
  };
}

function empty(path: string): void {
  inspect(`${path}-limits`, (db) =>
    db.exec(`DELETE FROM keystile_buckets; DELETE FROM keystile_bucket_holders;
      UPDATE keystile_limits SET clock = -9007199254740991, buckets = 0, ad_hoc = 0, holders = 0, ad_hoc_holders = 0`),
  );
}

/** Opens limiters that are closed after the test. */
export function openLimiter(opened: SqliteLimiter[], path: string, options: SqliteLimiterOptions = {}): SqliteLimiter {
  const limiter = sqliteLimiter({ path }, options);
  opened.push(limiter);
  return limiter;
}

/** Whether each of the calls passes, one after the other. */
export async function passes(limiter: Limiter, now: number, ...checks: readonly LimitCheck[]): Promise<boolean[]> {
  const passed = [];
  for (const one of checks) passed.push(!(await limiter.take([one], now))[0]!.exceeded);
  return passed;
}
