/** From sums of the store to the rows of a query: outcomes and tags are told apart here, for every store alike. */
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import { LEVELS, type OutcomeQuery, type OutcomeRow, OUTCOMES } from "../contracts/outcomes.js";
import type { Store } from "../contracts/store.js";
import type { VerificationCode } from "../contracts/types.js";
import { nextTurn } from "../lib/timers.js";
import { mergeRuns } from "../lib/merge-runs.js";
import { inSteps } from "../lib/slices.js";
import type { AnalyticsDimension, Plan } from "./query.js";

/** Counts that are read in one turn of the event loop. */
const ROWS_A_TURN = 2_500;
/** Parts that the keys of one period are read in, at most: SQLite looks through the period for each. */
const MAX_PARTS = 256;
/** Milliseconds of a part after which the next one has twice as many periods. */
const SHORT_MS = 4;
/** So does one that took less than this much longer than one with half as many: its periods are not what it costs. */
const MOSTLY_FIXED = 1.5;

/** A row of an answer. Of the dimensions it has those that were asked for. */
export interface AnalyticsRow {
  /** Start of the period, Unix time in milliseconds. */
  readonly time?: number;
  /** Empty: the key was not found. `(other)`: it was counted without its key. */
  readonly keyId?: string;
  /** Empty: the key had no identity. */
  readonly externalId?: string;
  readonly apiId?: string;
  readonly outcome?: VerificationCode;
  readonly tag?: string;
  /** Values by name of tag, of `tag:…`; absent where the calls had no such tag. */
  readonly tags?: Readonly<Record<string, string>>;
  /** Verifications. */
  readonly count: number;
  /** Credits that they took; those of a reservation are of the time at which it was settled. */
  readonly spent: number;
}

/** What an answer may take. */
export interface Bounds {
  /** Counts that are read. */
  readonly maxRows: number;
  /** Rows that the answer has, before it is cut into pages. Default: any number. */
  readonly maxGroups?: number;
  /** When reading ends, as `performance.now()`. Default: never. */
  readonly until?: number;
}

/** All rows of an answer, in order. @throws (rejects with) KeystileError ANALYTICS_TOO_LARGE · STORE_… */
export async function readRows(
  store: Pick<Store, "readOutcomes">,
  workspaceId: string,
  bounds: Bounds,
  plan: Plan,
): Promise<readonly AnalyticsRow[]> {
  const groups = new Map<string, Group>();
  let added = 0;
  for await (const found of readInTurns(store, { ...plan.query, workspaceId, maxRows: bounds.maxRows }, bounds.until))
    for (const row of found) {
      addToGroups(groups, row, plan);
      if (groups.size > (bounds.maxGroups ?? Infinity))
        throw tooLarge(`the answer has more than ${bounds.maxGroups} rows; ask for less time or fewer dimensions`);
      if (++added % ROWS_A_TURN === 0) await nextTurn();
    }
  const order = orderOf(plan);
  const sorted = await sortInTurns([...groups], ([a, one], [b, other]) => order(one, other) || (a < b ? -1 : 1));
  return sorted.map(([, group]) => group);
}

async function sortInTurns<T>(items: readonly T[], compare: (a: T, b: T) => number): Promise<readonly T[]> {
  const runs: (readonly T[])[] = [];
  for (let start = 0; start < items.length; start += ROWS_A_TURN) {
    runs.push(items.slice(start, start + ROWS_A_TURN).sort(compare));
    await nextTurn();
  }
  return inSteps(mergeRuns(runs, compare, nextTurn));
}

/**
 * Reads counts some periods at a time, or one period in parts of its keys, so that others have their turns of the event
 * loop in between: as many as take SQLite, on this thread, a few milliseconds. Sums of one group come once for each.
 * @param until when it ends, as `performance.now()`
 * @throws (rejects with) KeystileError ANALYTICS_TOO_LARGE · STORE_…
 */
export async function* readInTurns(
  store: Pick<Store, "readOutcomes">,
  query: OutcomeQuery,
  until = Infinity,
): AsyncGenerator<readonly OutcomeRow[]> {
  const step = LEVELS[query.level];
  let left = query.maxRows;
  let periods = 1;
  let parts = 1;
  let before = Infinity;
  /** One part of the keys in these periods; undefined: more counts than may be read. */
  const read = async (from: number, at: number): Promise<readonly OutcomeRow[] | undefined> => {
    if (performance.now() > until) throw tooLarge("the query takes too long; ask for less time, or for some keys");
    // Of the parts of one period the first tells for all.
    const isBounded = periods > 1 || (parts < MAX_PARTS && at === 0);
    const maxRows = isBounded ? Math.min(left, ROWS_A_TURN) : left;
    const part = parts === 1 ? {} : { part: { of: parts, at } };
    const to = Math.min(from + periods * step, query.to);
    try {
      const found = await store.readOutcomes({ ...query, from, to, ...part, maxRows });
      for (const { rows } of found) left -= rows;
      return found;
    } catch (error) {
      if (!isKeystileError(error) || error.code !== "ANALYTICS_TOO_LARGE") throw error;
      if (maxRows < left) return undefined;
      throw tooLarge(
        `the query reads more than ${query.maxRows} counts; ask for less time, or for some keys, owners or APIs`,
      );
    }
  };
  for (let { from } = query, at = 0; from < query.to;) {
    await nextTurn();
    const began = performance.now();
    const found = await read(from, at);
    if (found === undefined) {
      if (periods > 1) periods = Math.ceil(periods / 4);
      else parts *= 2;
      continue;
    }
    yield found;
    at = (at + 1) % parts;
    if (at > 0) continue;
    from += periods * step;
    const took = performance.now() - began;
    if (parts > 1) parts /= 2;
    else periods = took < SHORT_MS || took < MOSTLY_FIXED * before ? periods * 2 : Math.ceil(periods / 2);
    before = took;
  }
}

const tooLarge = (message: string): KeystileError => new KeystileError("ANALYTICS_TOO_LARGE", message);

type Group = AnalyticsRow & { count: number; spent: number };

/** Adds the counts of one row of the store to the groups of the answer. */
function addToGroups(groups: Map<string, Group>, row: OutcomeRow, plan: Plan): void {
  if (plan.tags !== undefined && !plan.tags.some((tag) => row.tags?.includes(tag))) return;
  for (const tag of plan.by.includes("tag") ? (row.tags ?? []) : [undefined])
    for (const [i, outcome] of OUTCOMES.entries()) {
      const count = row.counts[i] ?? 0;
      // Only VALID calls spend. A reservation spends when it is settled, maybe in a period without a call.
      const spent = outcome === "VALID" ? row.spent : 0;
      if ((count === 0 && spent === 0) || plan.outcomes?.includes(outcome) === false) continue;
      const dimensions = dimensionsOf(row, plan, tag, outcome);
      // Without the closing brace, so that a group that lacks a dimension sorts before the groups that have it.
      const id = JSON.stringify(dimensions).slice(0, -1);
      let group = groups.get(id);
      if (group === undefined) groups.set(id, (group = { ...dimensions, count: 0, spent: 0 }));
      group.count += count;
      group.spent += spent;
    }
}

function dimensionsOf(
  row: OutcomeRow,
  { by, period }: Plan,
  tag: string | undefined,
  outcome: VerificationCode,
): Omit<AnalyticsRow, "count" | "spent"> {
  const named = by.filter((name) => name.startsWith("tag:")).flatMap((name) => valueOf(row, name));
  return {
    ...(row.time !== undefined && { time: period === "month" ? startOfMonth(row.time) : row.time }),
    ...(row.keyId !== undefined && { keyId: row.keyId }),
    ...(row.externalId !== undefined && { externalId: row.externalId }),
    ...(row.apiId !== undefined && { apiId: row.apiId }),
    ...(by.includes("outcome") && { outcome }),
    ...(tag !== undefined && { tag }),
    ...(named.length > 0 && { tags: Object.fromEntries(named) }),
  };
}

/** The value of the tag `name=value`. */
function valueOf({ tags = [] }: OutcomeRow, dimension: AnalyticsDimension): [name: string, value: string][] {
  const name = dimension.slice("tag:".length);
  const found = tags.find((tag) => tag.startsWith(`${name}=`));
  return found === undefined ? [] : [[name, found.slice(name.length + 1)]];
}

/** The start of the month, UTC. */
export function startOfMonth(time: number): number {
  const date = new Date(time);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
}

/** Rows that are equal by this follow the order of their ids, so that pages fit together. */
function orderOf({ order }: Plan): (a: AnalyticsRow, b: AnalyticsRow) => number {
  const later = (a: AnalyticsRow, b: AnalyticsRow) => (a.time ?? 0) - (b.time ?? 0);
  return order === "time" ? later : (a, b) => b[order] - a[order] || later(a, b);
}
