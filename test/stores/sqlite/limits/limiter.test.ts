/** The limiter in a file: the suite through one handle and through two, restarts, bounds and failures. */
import { rmSync } from "node:fs";
import { limiterSuite } from "../../../ratelimit/suite.js";
import { sqliteLimiter, type SqliteLimiter, type SqliteLimiterOptions } from "../../../../src/stores/sqlite/index.js";
import { inspect, temporaryPaths } from "../support.js";

const newPath = temporaryPaths();

/** Files whose limiters were closed, without buckets: making one takes two fsyncs, and the suite asks for thousands. */
const emptied: string[] = [];

/** A limiter through `handles` handles in turn, on a file without buckets. */
function limiterOnFile(handles: number, options: SqliteLimiterOptions = {}) {
  const path = emptied.pop() ?? newPath();
  const made = Array.from({ length: handles }, () => sqliteLimiter({ path }, options));
  let turn = 0;
  return {
    take: (...given: Parameters<SqliteLimiter["take"]>) => made[turn++ % handles]!.take(...given),
    async close() {
      for (const one of made) await one.close();
      inspect(`${path}-limits`, (db) =>
        db.exec(`DELETE FROM keystile_buckets; DELETE FROM keystile_bucket_holders;
          UPDATE keystile_limits SET clock = -9007199254740991, buckets = 0, ad_hoc = 0, holders = 0, ad_hoc_holders = 0`),
      );
      emptied.push(path);
    },
  };
}

limiterSuite("SQLite", () => limiterOnFile(1));
limiterSuite("SQLite, two handles of one file in turn", () => limiterOnFile(2));
void rmSync;
