/** How many buckets the file has, of which workspaces, and the time up to which they were used. */
import { KeystileError } from "../../../contracts/errors.js";
import { type Handle, select } from "../connection/handle.js";
import { LIMITS_VERSION } from "./limits-tables.js";

/** A workspace that holds buckets. */
export interface Holder {
  readonly number: number;
  readonly buckets: number;
  readonly adHoc: number;
}

/** Counts of one kind: of all buckets, or of those of ad hoc limits. */
export interface Held {
  readonly buckets: number;
  readonly holders: number;
}

const COLUMNS = "number, buckets, ad_hoc AS adHoc";
const NOTHING = {
  version: LIMITS_VERSION,
  clock: Number.MIN_SAFE_INTEGER,
  buckets: 0,
  ad_hoc: 0,
  holders: 0,
  ad_hoc_holders: 0,
};
type Row = Readonly<typeof NOTHING>;

export function createTotals(handle: Handle) {
  const read = select<Row>(handle, "SELECT * FROM keystile_limits");
  const write = handle.prepare(
    "UPDATE keystile_limits SET clock = ?, buckets = ?, ad_hoc = ?, holders = ?, ad_hoc_holders = ?",
  );
  const find = select<Holder>(handle, `SELECT ${COLUMNS} FROM keystile_bucket_holders WHERE workspace_id = ?`);
  const findNumber = select<Holder>(handle, `SELECT ${COLUMNS} FROM keystile_bucket_holders WHERE number = ?`);
  const most = select<Holder>(handle, `SELECT ${COLUMNS} FROM keystile_bucket_holders ORDER BY buckets DESC LIMIT 1`);
  const mostAdHoc = select<Holder>(
    handle,
    `SELECT ${COLUMNS} FROM keystile_bucket_holders WHERE ad_hoc > 0 ORDER BY ad_hoc DESC LIMIT 1`,
  );
  const join = handle.prepare("INSERT INTO keystile_bucket_holders (workspace_id, buckets, ad_hoc) VALUES (?, 1, ?)");
  const change = handle.prepare(
    "UPDATE keystile_bucket_holders SET buckets = buckets + ?, ad_hoc = ad_hoc + ? WHERE number = ?",
  );
  const leave = handle.prepare("DELETE FROM keystile_bucket_holders WHERE number = ?");
  let stored: Row = NOTHING;
  let now: Row = NOTHING;
  const count = (by: Omit<Row, "version" | "clock">) => {
    now = {
      ...now,
      buckets: now.buckets + by.buckets,
      ad_hoc: now.ad_hoc + by.ad_hoc,
      holders: now.holders + by.holders,
      ad_hoc_holders: now.ad_hoc_holders + by.ad_hoc_holders,
    };
  };
  return {
    /** Reads what other connections may have changed. @throws KeystileError STORE_SCHEMA_NEWER, STORE_INVALID */
    load(): void {
      const row = read.get();
      if (row === undefined) throw new KeystileError("STORE_INVALID", "the file of the rate limits lost its tables");
      if (row.version > LIMITS_VERSION)
        throw new KeystileError(
          "STORE_SCHEMA_NEWER",
          `the rate limits have tables of version ${row.version}, this keystile knows ${LIMITS_VERSION}; upgrade it`,
        );
      if (row.version < LIMITS_VERSION)
        throw new KeystileError(
          "STORE_INVALID",
          `the rate limits have tables of version ${row.version}, of an earlier keystile; remove the file while no process has it open, and all buckets start full`,
        );
      stored = now = row;
    },
    /** Writes what has changed. */
    save(): void {
      if (now === stored) return;
      write.run(now.clock, now.buckets, now.ad_hoc, now.holders, now.ad_hoc_holders);
      stored = now;
    },
    /** The latest time of any take of any process, Unix milliseconds. */
    clock: (): number => now.clock,
    /** Moves the clock; it never goes back. @returns the time that now counts */
    moveClock(time: number): number {
      if (time > now.clock) now = { ...now, clock: time };
      return now.clock;
    },
    all: (): Held => ({ buckets: now.buckets, holders: now.holders }),
    adHoc: (): Held => ({ buckets: now.ad_hoc, holders: now.ad_hoc_holders }),
    find: (workspaceId: string): Holder | undefined => find.get(workspaceId),
    /** One of the workspaces that hold most; `undefined`: there are no buckets. */
    largest: (isAdHoc: boolean): Holder | undefined => (isAdHoc ? mostAdHoc : most).get(),
    /** Counts a bucket. @returns the number of its holder */
    add(workspaceId: string, isAdHoc: boolean): number {
      const adHoc = Number(isAdHoc);
      const holder = find.get(workspaceId);
      const [holders, ad_hoc_holders] = [Number(holder === undefined), Number(isAdHoc && !holder?.adHoc)];
      count({ buckets: 1, ad_hoc: adHoc, holders, ad_hoc_holders });
      if (holder === undefined) return Number(join.run(workspaceId, adHoc).lastInsertRowid);
      change.run(1, adHoc, holder.number);
      return holder.number;
    },
    /** Counts a bucket less. */
    remove(number: number, isAdHoc: boolean): void {
      const adHoc = Number(isAdHoc);
      const holder = findNumber.get(number);
      if (holder === undefined || holder.adHoc < adHoc)
        throw new KeystileError("STORE_INVALID", "the file of the rate limits counts its buckets wrongly");
      const [holders, ad_hoc_holders] = [-Number(holder.buckets === 1), -Number(isAdHoc && holder.adHoc === 1)];
      count({ buckets: -1, ad_hoc: -adHoc, holders, ad_hoc_holders });
      if (holder.buckets === 1) leave.run(number);
      else change.run(-1, -adHoc, number);
    },
  };
}

export type Totals = ReturnType<typeof createTotals>;
