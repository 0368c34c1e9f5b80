/** The tables of rate limits. */
import { type Handle, select } from "../connection/handle.js";

/** The version of the tables. */
export const LIMITS_VERSION = 1;

const count = (name: string) => `${name} INTEGER NOT NULL CHECK (${name} BETWEEN 0 AND 9007199254740991)`;

/**
 * A bucket's id is a keyed hash of its name. `amount` and `duration` are the limit of its first level, `levels` the
 * others as JSON: `[[amount, duration, used], …]`.
 */
const CREATE = `
  CREATE TABLE keystile_limits (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    secret BLOB NOT NULL CHECK (length(secret) = 32),
    clock INTEGER NOT NULL,
    ${["buckets", "ad_hoc", "holders", "ad_hoc_holders"].map(count).join(", ")}
  ) STRICT;
  INSERT INTO keystile_limits VALUES (1, ${LIMITS_VERSION}, randomblob(32), -9007199254740991, 0, 0, 0, 0);
  CREATE TABLE keystile_bucket_holders (
    number INTEGER PRIMARY KEY,
    workspace_id TEXT NOT NULL UNIQUE,
    ${count("buckets")},
    ad_hoc INTEGER NOT NULL CHECK (ad_hoc BETWEEN 0 AND buckets)
  ) STRICT;
  CREATE INDEX keystile_bucket_holders_most ON keystile_bucket_holders (buckets);
  CREATE INDEX keystile_bucket_holders_most_ad_hoc ON keystile_bucket_holders (ad_hoc) WHERE ad_hoc > 0;
  CREATE TABLE keystile_buckets (
    id INTEGER PRIMARY KEY,
    holder INTEGER NOT NULL,
    is_ad_hoc INTEGER NOT NULL CHECK (is_ad_hoc IN (0, 1)),
    at INTEGER NOT NULL,
    ${["amount", "duration", "used"].map(count).join(", ")},
    levels TEXT
  ) STRICT;
  CREATE INDEX keystile_buckets_of ON keystile_buckets (holder, is_ad_hoc);`;

/** Whether they are there. */
export function hasTables(handle: Handle): boolean {
  const sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'keystile_limits'";
  return select(handle, sql).get() !== undefined;
}

/** Makes them where they are not. Call in a transaction. */
export function makeTables(handle: Handle): void {
  if (!hasTables(handle)) handle.exec(CREATE);
}
