/** createAnalytics: what verifiers counted, by time, key, owner, outcome and tags; statements of credits. */
import { LEVELS, type OutcomeLevel } from "../contracts/outcomes.js";
import type { Store } from "../contracts/store.js";
import {
  callable,
  type Check,
  checkOptions,
  DEFAULT_WORKSPACE,
  guardClock,
  integer,
  oneOf,
  workspace,
} from "../lib/check-options.js";
import { explainLate } from "../lib/seconds.js";
import { checkStore, guardStore, STORE_GUARD_OPTIONS, type StoreGuardOptions } from "../lib/guards/guard-store.js";
import { requirePower } from "../lib/guards/powers.js";
import { toField } from "./csv.js";
import { type AnalyticsQuery, type Plan, planQuery } from "./query.js";
import { readRefusals, type Refusals, type RefusalsOf, type RefusalsRange } from "./refusals.js";
import { type AnalyticsRow, readRows } from "./rows.js";
import { readStatement } from "./read-statement.js";
import { assertStatementOf, paceOf, type Statement, type StatementOf } from "./statement.js";

/** Options of {@link createAnalytics}. */
export interface AnalyticsReaderOptions extends StoreGuardOptions {
  /** Only what was counted in this workspace, 1–255 characters of `[a-zA-Z0-9_-]`. Default `ws_default`. */
  readonly workspaceId?: string;
  /** Counts that a query may read, 1…100_000_000, default 1_000_000. SQLite reads some 7,000,000 a second. */
  readonly maxRows?: number | undefined;
  /** Returns Unix milliseconds. Default `Date.now`. */
  readonly clock?: (() => number) | undefined;
}

/** One page of an answer. */
export interface AnalyticsPage {
  readonly rows: readonly AnalyticsRow[];
  /** For the next page. Absent: there is none. */
  readonly cursor?: string;
  /**
   * Unix time in milliseconds up to which everything is counted, two minutes before now at the latest: later rows may
   * still grow. Of a process that cannot reach the store, or takes more than a minute to write, counts come later.
   */
  readonly until: number;
}

/** Reads what verifiers with `analytics` counted. Its methods need no `this`. */
export interface Analytics {
  /**
   * Adds up counts.
   * @throws (rejects) KeystileError BAD_REQUEST with each problem of the query · ANALYTICS_TOO_LARGE ·
   *   STORE_POWER_MISSING by the minute on PostgreSQL · STORE_…
   */
  query(query: AnalyticsQuery): Promise<AnalyticsPage>;
  /**
   * The rows of a query, page after page, as text.
   * @param format `csv` with a header line, as RFC 4180, or `ndjson`: a JSON object a line
   * @throws (rejects) as {@link Analytics.query}
   */
  export(query: AnalyticsQuery, format: "csv" | "ndjson"): AsyncIterable<string>;
  /**
   * What a customer, or a key, had and spent in a month. Verifications that were not counted are in it all the same,
   * since credits are read from accounts.
   * @param month UTC, such as `2026-11`
   * @throws (rejects) KeystileError BAD_REQUEST · STORE_…
   */
  statement(of: StatementOf, month: string): Promise<Statement>;
  /**
   * When the credits of an owner, or those that a key draws on, will be used up at the pace of the last 14 days,
   * refills left aside.
   * @returns `emptyAt` Unix time in milliseconds; absent: never
   * @throws (rejects) KeystileError BAD_REQUEST · STORE_…
   */
  forecast(of: StatementOf): Promise<{ readonly perDay: number; readonly emptyAt?: number }>;
  /**
   * Why calls of a key, or of all keys of an owner or an API, were refused: how many by code and hour; of a key also
   * the last ones, each with the query, the limit or the address that decided. Calls are in it once their verifier has
   * written its counts, after its `interval` of 5 s unless it says other.
   * @param of exactly one of `keyId`, `externalId` and `apiId`
   * @param range default: the last 24 hours
   * @throws (rejects) KeystileError BAD_REQUEST · ANALYTICS_TOO_LARGE · STORE_…
   */
  refusals(of: RefusalsOf, range?: RefusalsRange): Promise<Refusals>;
  /**
   * Removes counts of before a time. Verifiers remove old ones by themselves.
   * @param level whose counts
   * @param before Unix time, milliseconds
   * @returns how many were removed
   * @throws (rejects) KeystileError STORE_…
   */
  prune(level: OutcomeLevel, before: number): Promise<number>;
}

const OPTIONS = {
  ...STORE_GUARD_OPTIONS,
  workspaceId: workspace,
  maxRows: integer(1, 100_000_000),
  clock: callable,
} as const satisfies Record<keyof AnalyticsReaderOptions, Check>;

/** The longest interval at which counts are written, and as long again for the writing. */
const MAX_LAG = 120_000;
const PRUNED = 1_000;
const FORECAST_DAYS = 14;
const SOURCE = Symbol.for("keystile.analytics.source");

/** What counts are read from. */
export interface AnalyticsSource {
  /** As the program gave it. */
  readonly given: Store;
  readonly workspaceId: string;
}

/** What it reads from; `undefined` for what {@link createAnalytics} did not create. */
export function sourceOfAnalytics(analytics: Pick<Analytics, "statement">): AnalyticsSource | undefined {
  return (analytics as { readonly [SOURCE]?: AnalyticsSource } | undefined)?.[SOURCE];
}

const COLUMNS = ["time", "keyId", "externalId", "apiId", "outcome", "tag", "tags", "count", "spent"] as const;
const isLevel = oneOf(...Object.keys(LEVELS));

/**
 * Reads the counts of a store.
 * @param given the store of the verifiers
 * @throws TypeError or RangeError naming the option or the store's missing method · KeystileError STORE_POWER_MISSING
 * @example
 * const analytics = createAnalytics(store);
 * const [from, to] = [Date.now() - 30 * 86_400_000, Date.now()];
 * const { rows } = await analytics.query({ by: ["day", "outcome"], from, to });
 */
export function createAnalytics(given: Store, options: AnalyticsReaderOptions = {}): Analytics {
  checkStore(given);
  const settings = checkOptions(options, OPTIONS);
  const { workspaceId = DEFAULT_WORKSPACE, maxRows = 1_000_000, storeTimeout } = settings;
  const clock = guardClock(settings.clock ?? Date.now);
  const store = guardStore(given, storeTimeout);
  requirePower(store, "analytics", "createAnalytics");

  const read = (plan: Plan) => readRows(store, workspaceId, { maxRows }, plan);
  const until = (to: number): number => Math.min(to, clock() - MAX_LAG);
  const source: AnalyticsSource = { given, workspaceId };
  const analytics: Analytics = {
    async query(query) {
      const plan = planQuery(query);
      const rows = await read(plan);
      const end = plan.skip + plan.limit;
      const page = { rows: rows.slice(plan.skip, end), until: until(plan.query.to) };
      return end < rows.length ? { ...page, cursor: String(end) } : page;
    },
    async *export(query, format) {
      oneOf("csv", "ndjson")(format, "format");
      const plan = planQuery(query);
      const rows = await read(plan);
      const columns = COLUMNS.filter((name) => rows.some((row) => row[name] !== undefined));
      if (format === "csv") yield `${columns.join(",")}\r\n`;
      for (const row of rows.slice(plan.skip))
        yield format === "csv"
          ? `${columns.map((name) => toField(row[name])).join(",")}\r\n`
          : `${JSON.stringify(row)}\n`;
    },
    async statement(of, month) {
      return readStatement(store, workspaceId, { of, month }, { maxRows, now: clock() });
    },
    async forecast(of) {
      assertStatementOf(of);
      const now = clock();
      const to = Math.ceil((now + 1) / LEVELS.day) * LEVELS.day;
      const days = await store.readCreditDays({ workspaceId, ...of, from: to - FORECAST_DAYS * LEVELS.day, to });
      const { perDay, left } = paceOf(days, of, now);
      return perDay > 0 ? { perDay, emptyAt: Math.round(now + (left / perDay) * LEVELS.day) } : { perDay };
    },
    async refusals(of, range) {
      return readRefusals(store, workspaceId, { ...of, ...range }, { maxRows, now: clock(), location: "of" });
    },
    async prune(level, before) {
      isLevel(level, "level");
      if (!Number.isSafeInteger(before) || explainLate(before) !== undefined)
        throw new TypeError("before must be Unix time in milliseconds");
      let removed = 0;
      for (let some = PRUNED; some === PRUNED; removed += some) some = await store.pruneOutcomes(level, before, PRUNED);
      return removed;
    },
  };
  // Not enumerable: printing or copying the methods does not reach the store.
  return Object.freeze(Object.defineProperty(analytics, SOURCE, { value: source }));
}
