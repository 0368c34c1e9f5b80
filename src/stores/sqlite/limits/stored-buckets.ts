/** Buckets as rows of the file: statements, and the form of a row. */
import { KeystileError } from "../../../contracts/errors.js";
import type { Bucket, Level, Rate } from "../../../ratelimit/memory/bucket.js";
import { type Handle, select } from "../connection/handle.js";

/** A bucket of the file. */
export interface StoredBucket extends Bucket {
  readonly id: number;
  /** The number of the workspace that holds it. */
  readonly holder: number;
  readonly isAdHoc: boolean;
}

/** Bucket ids are below this: 52 bits of a keyed hash. */
export const ID_BOUND = 2 ** 52;

type Row = Readonly<
  Record<"id" | "holder" | "is_ad_hoc" | "at" | "amount" | "duration" | "used", number> & { levels: string | null }
>;

const COLUMNS = "id, holder, is_ad_hoc, at, amount, duration, used, levels";

/** @param rateOf the rate of a limit and a duration */
export function createBucketRows(handle: Handle, rateOf: (limit: number, duration: number) => Rate) {
  const find = select<Row>(handle, `SELECT ${COLUMNS} FROM keystile_buckets WHERE id = ?`);
  const list = select<Row>(handle, `SELECT ${COLUMNS} FROM keystile_buckets WHERE id >= ? ORDER BY id LIMIT ?`);
  const listOf = select<Row>(
    handle,
    `SELECT ${COLUMNS} FROM keystile_buckets WHERE holder = ? AND is_ad_hoc = ? AND id >= ? ORDER BY id LIMIT ?`,
  );
  const add = handle.prepare(`INSERT INTO keystile_buckets (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
  const write = handle.prepare(
    "UPDATE keystile_buckets SET at = ?, amount = ?, duration = ?, used = ?, levels = ? WHERE id = ?",
  );
  const remove = handle.prepare("DELETE FROM keystile_buckets WHERE id = ?");
  const toLevel = ([limit, duration, used]: readonly unknown[], next: Level | undefined): Level => {
    if (!isCount(limit) || !isCount(duration) || !isCount(used)) throw damaged();
    return { rate: rateOf(limit, duration), used, next };
  };
  const toLevels = (text: string | null): Level | undefined => {
    if (text === null) return undefined;
    return parse(text).reduceRight<Level | undefined>((next, level) => toLevel(level, next), undefined);
  };
  const toBucket = ({ id, holder, is_ad_hoc, at, amount, duration, used, levels }: Row): StoredBucket => {
    if (!Number.isSafeInteger(at)) throw damaged();
    const first = toLevel([amount, duration, used], toLevels(levels));
    return { id, holder, isAdHoc: is_ad_hoc === 1, at, rate: first.rate, used: first.used, next: first.next };
  };
  return {
    find(id: number): StoredBucket | undefined {
      const row = find.get(id);
      return row && toBucket(row);
    },
    /** Buckets from this id on, in the order of their ids. */
    list: (from: number, count: number): StoredBucket[] => list.all(from, count).map(toBucket),
    /** The same of one holder and one kind. */
    listOf: (holder: number, isAdHoc: boolean, from: number, count: number): StoredBucket[] =>
      listOf.all(holder, Number(isAdHoc), from, count).map(toBucket),
    add({ id, holder, isAdHoc, at, rate, used, next }: StoredBucket): void {
      add.run(id, holder, Number(isAdHoc), at, rate.limit, rate.duration, used, toText(next));
    },
    /** Writes the time and the levels. */
    write({ id, at, rate, used, next }: StoredBucket): void {
      write.run(at, rate.limit, rate.duration, used, toText(next), id);
    },
    remove: (id: number): void => void remove.run(id),
  };
}

export type BucketRows = ReturnType<typeof createBucketRows>;

function toText(first: Level | undefined): string | null {
  if (first === undefined) return null;
  const levels: number[][] = [];
  for (let level: Level | undefined = first; level !== undefined; level = level.next)
    levels.push([level.rate.limit, level.rate.duration, level.used]);
  return JSON.stringify(levels);
}

function parse(text: string): readonly (readonly unknown[])[] {
  let levels: unknown;
  try {
    levels = JSON.parse(text);
  } catch {
    throw damaged();
  }
  if (!Array.isArray(levels) || !levels.every(Array.isArray)) throw damaged();
  return levels as unknown[][];
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function damaged(): KeystileError {
  return new KeystileError(
    "STORE_INVALID",
    "the file of the rate limits has a bucket that cannot be read; remove the file while no process has it open, and " +
      "all buckets start full",
  );
}
