/**
 * What a flush adds to the tables of counts, and how they are read: the same for every store.
 *
 * Why totals of each API: outcomes of 90 days over 10,000,000 rows of keys took SQLite 1,331 ms, and 61 with them.
 */
import { KeystileError } from "../contracts/errors.js";
import {
  type CreditDay,
  LEVELS,
  MAX_REFUSALS,
  OTHER,
  type OutcomeCell,
  type OutcomeFlush,
  type OutcomeLevel,
  OUTCOMES,
  type OutcomeQuery,
  type OutcomeRow,
  type OutcomeSubject,
  type Refusal,
  type RefusalsQuery,
} from "../contracts/outcomes.js";
import type { KeyRef } from "../contracts/store.js";

/** The columns of counts, and of credits. */
export const COUNT_COLUMNS: readonly string[] = [...OUTCOMES.map((code) => code.toLowerCase()), "spent"];

/** The totals of an account that only grow, but `adjusted`, as the first tables have them. */
export const TOTALS = ["credited", "refilled", "adjusted", "spent", "forfeited"] as const;
/** The same as tables have them now: `forfeited` includes what `expired`, so that the rules of the first ones hold. */
export const TOTALS_KEPT = [...TOTALS, "expired"] as const;
export const DAY = LEVELS.day;
/**
 * Whether the last totals `d` of a grant's account `a` say all that ever becomes of it, once the grant has ended: what
 * was forfeited comes back with a late report. Part of the text of a released step.
 */
export const IS_SETTLED = "d.balance = 0 AND d.forfeited - d.expired = a.forfeited - a.expired";

/** The tags of a set that has none of its own. */
export const OTHER_TAGS = JSON.stringify([OTHER]);
/** The tags of calls that had none. This set and that of others are beyond the bound of a workspace. */
export const NO_TAGS = "[]";

/** Whose row it is: a cell itself, so that its number is looked up once for all levels, or all keys of an API. */
export interface EntrySubject extends OutcomeSubject {
  readonly isTotal?: true;
  readonly account?: KeyRef;
}
/** What is added to one row. */
export interface OutcomeEntry {
  /** Periods since 1970. */
  readonly bucket: number;
  readonly of: EntrySubject;
  /** JSON of a list. */
  readonly tags: string;
  /** Of the cell in its flush; absent: of many. */
  readonly place?: number;
  /** In the order of {@link COUNT_COLUMNS}. */
  readonly sums: number[];
}

/** The tags of cells, as stores keep them. */
export function tagTexts(cells: readonly OutcomeCell[]): string[] {
  return cells.map(({ tags }) => (tags.length === 0 ? NO_TAGS : JSON.stringify(tags)));
}

/**
 * What cells add to the rows of one level: those of keys each by itself, those of APIs together.
 * @param texts of their tags, by {@link tagTexts}
 */
export function entriesOf(
  cells: readonly OutcomeCell[],
  texts: readonly string[],
  level: OutcomeLevel,
): OutcomeEntry[] {
  const entries: OutcomeEntry[] = [];
  const totals = new Map<string, OutcomeEntry>();
  for (const [place, cell] of cells.entries()) {
    const { workspaceId, apiId } = cell;
    const bucket = Math.floor(cell.minute / LEVELS[level]);
    const tags = texts[place] as string;
    const sums = [...cell.counts, cell.spent];
    entries.push({ bucket, of: cell, tags, sums, place });
    const id = `${bucket} ${workspaceId} ${apiId} ${tags}`;
    const total = totals.get(id);
    const of = { workspaceId, apiId, keyId: "", externalId: "", isTotal: true } as const;
    if (total === undefined) totals.set(id, { bucket, of, tags, sums: [...sums] });
    else for (let i = 0; i < sums.length; i++) (total.sums[i] as number) += sums[i] as number;
  }
  return [...entries, ...totals.values()];
}

/** The last day on which something of a flush was counted, or on which it was made: what it names stays until then. */
export function lastDayOf({ at, cells }: OutcomeFlush): number {
  return Math.floor(Math.max(at, ...cells.map(({ minute }) => minute)) / DAY);
}

/** The accounts that cells name, each once. */
export function accountsOf(cells: readonly OutcomeCell[]): KeyRef[] {
  return [...new Set(cells.flatMap(({ account, ownerAccount }) => [account ?? [], ownerAccount ?? []].flat()))];
}

/** Keys whose refusals are kept, and how many are forgotten at once beyond them. */
export const REFUSED_KEYS = 10_000;
export const FORGOTTEN_KEYS = 100;

/** The last refusals of a key, newest first. */
export interface RefusedKey {
  readonly keyId: string;
  readonly workspaceId: string;
  /** Of the last of them, Unix time in milliseconds. */
  readonly time: number;
  readonly refusals: readonly Refusal[];
}

/** The refusals of cells, by key and workspace: nodes that write the same keys wait for each other in one order. */
export function refusedIn(cells: readonly OutcomeCell[]): RefusedKey[] {
  const keys = new Map<string, RefusedKey>();
  for (const { keyId, workspaceId, refusals = [] } of cells) {
    const id = refusedId({ keyId, workspaceId });
    const all = lastRefusals(refusals, keys.get(id)?.refusals);
    if (all.length > 0) keys.set(id, { keyId, workspaceId, time: (all[0] as Refusal).time, refusals: all });
  }
  return [...keys].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, key]) => key);
}

/** Tells keys of workspaces apart: an id may be used again, in another workspace, once its key is gone. */
export function refusedId({ keyId, workspaceId }: RefusalsQuery): string {
  return JSON.stringify([keyId, workspaceId]);
}

/** The last of two lists, newest first. */
export function lastRefusals(some: readonly Refusal[], others: readonly Refusal[] = []): readonly Refusal[] {
  return [...some, ...others].sort((a, b) => b.time - a.time).slice(0, MAX_REFUSALS);
}

/** Whether a query needs the counts of keys; otherwise those of APIs say the same. */
export function needsKeys({ by, keyIds, externalIds }: OutcomeQuery): boolean {
  return keyIds !== undefined || externalIds !== undefined || by.includes("keyId") || by.includes("externalId");
}

/** How a database writes what differs. */
export interface Dialect {
  table(name: string): string;
  /** A number that was bound. */
  number(place: number): string;
  text(place: number): string;
  /** A subquery of the texts of a JSON list that was bound. */
  list(place: number): string;
  /** A column `b` with each bucket between two bounds, as far as the table has rows. */
  calendar(table: string, from: string, to: string): string;
  /** The sum of a column as the driver returns it exactly. */
  sum(column: string): string;
  /** A dimension as the driver returns it. */
  plain(column: string): string;
  /** The number of rows, and 0 of its type. */
  readonly count: string;
  readonly none: string;
}

const DIMENSIONS = {
  time: "o.bucket",
  apiId: "s.api_id",
  keyId: "s.key_id",
  externalId: "s.external_id",
  tags: "t.tags",
} as const;

/**
 * The statement of a query.
 *
 * Why a calendar if the query asks for few subjects: the primary key of the counts is time and then subject, so that
 * each pair of a bucket and a subject is one look-up, and the table needs no index by subject.
 */
export function selectOutcomes(
  query: OutcomeQuery,
  dialect: Dialect,
): { readonly text: string; readonly values: readonly (string | number)[] } {
  const values: (string | number)[] = [];
  const bind = (value: string | number): number => values.push(value);
  const { level, by, workspaceId, apiIds, keyIds, externalIds, part, maxRows } = query;
  const table = dialect.table(`outcomes_${level}`);
  const from = dialect.number(bind(query.from / LEVELS[level]));
  const to = dialect.number(bind(query.to / LEVELS[level]));
  const isTotal = !needsKeys(query);
  const filters = [
    `s.workspace_id = ${dialect.text(bind(workspaceId))}`,
    `s.is_total = ${dialect.number(bind(isTotal ? 1 : 0))}`,
  ];
  const lists = { "s.api_id": apiIds, "s.key_id": keyIds, "s.external_id": externalIds };
  for (const [column, given] of Object.entries(lists))
    if (given !== undefined) filters.push(`${column} IN ${dialect.list(bind(JSON.stringify(given)))}`);
  // The condition of the partial index of owners, without which the database does not use it.
  if (externalIds?.includes("") === false) filters.push("s.external_id <> ''");
  const isSelective = isTotal || keyIds !== undefined || externalIds !== undefined;
  const ofPart = (number: string): string[] =>
    part === undefined ? [] : [`${number} % ${dialect.number(bind(part.of))} = ${dialect.number(bind(part.at))}`];
  // Subjects are read first if they are few, and counts first otherwise: the part restricts what is read first.
  if (isSelective) filters.push(...ofPart("s.number"));
  const subjects = `(SELECT * FROM ${dialect.table("subjects")} s WHERE ${filters.join(" AND ")})`;
  const source = isSelective
    ? `${subjects} s CROSS JOIN ${dialect.calendar(table, from, to)} c
       CROSS JOIN ${table} o WHERE o.bucket = c.b AND o.subject = s.number`
    : `${table} o CROSS JOIN ${subjects} s WHERE ${[...ofPart("o.subject"), `o.subject = s.number AND o.bucket >= ${from} AND o.bucket < ${to}`].join(" AND ")}`;
  const rows = `SELECT o.bucket, s.api_id, s.key_id, s.external_id, o.tag_set, ${COUNT_COLUMNS.map((name) => `o.${name}`).join(", ")}
    FROM ${source} LIMIT ${maxRows + 1}`;
  const groups = by.map((name) => (name === "tags" ? "x.tag_set" : DIMENSIONS[name].replace(/^./, "x")));
  const dimensions = by.map(
    (name, i) => `${dialect.plain(name === "tags" ? "t.tags" : (groups[i] as string))} AS ${name.toLowerCase()}`,
  );
  const sums = COUNT_COLUMNS.map((name) => `${dialect.sum(`x.${name}`)} AS ${name}`);
  const tags = by.includes("tags") ? ` JOIN ${dialect.table("tag_sets")} t ON t.number = x.tag_set` : "";
  const group = groups.length === 0 ? "" : ` GROUP BY ${groups.join(", ")}${tags === "" ? "" : ", t.tags"}`;
  const text = `SELECT ${[...dimensions, ...sums].join(", ")}, ${dialect.plain(dialect.count)} AS found
    FROM (${rows}) x${tags}${group} HAVING ${dialect.count} > ${dialect.none}`;
  return { text, values };
}

/** @param rows as {@link selectOutcomes} names their columns @throws KeystileError ANALYTICS_TOO_LARGE */
export function toOutcomeRows(
  rows: readonly Readonly<Record<string, unknown>>[],
  { by, level, maxRows }: OutcomeQuery,
): OutcomeRow[] {
  let found = 0;
  for (const row of rows) found += Number(row["found"]);
  if (found > maxRows) throw tooLarge(maxRows);
  return rows.map((row) => {
    const sums = COUNT_COLUMNS.map((name) => Number(row[name] ?? 0));
    return {
      ...(by.includes("time") && { time: Number(row["time"]) * LEVELS[level] }),
      ...(by.includes("apiId") && { apiId: row["apiid"] as string }),
      ...(by.includes("keyId") && { keyId: row["keyid"] as string }),
      ...(by.includes("externalId") && { externalId: row["externalid"] as string }),
      ...(by.includes("tags") && { tags: JSON.parse(row["tags"] as string) as string[] }),
      counts: sums.slice(0, -1),
      spent: sums.at(-1) as number,
      rows: Number(row["found"]),
    };
  });
}

/** A row of {@link TOTALS_KEPT} as drivers return it: numbers, bigints or texts. */
export function toCreditDay(row: Readonly<Record<string, unknown>>): CreditDay {
  const { account, externalId, isCap, keyId, identityId, grantId, ...rest } = row;
  const known = (fields: object) =>
    Object.entries(fields).filter(([, value]) => typeof value !== "undefined" && value !== null);
  const numbers = Object.fromEntries(known(rest).map(([name, value]) => [name, Number(value)]));
  const owner = Object.fromEntries(known({ externalId, keyId, identityId, grantId }));
  const { forfeited, expired = 0, ...others } = numbers as unknown as Omit<CreditDay, "account" | "externalId">;
  return {
    ...others,
    forfeited: forfeited - expired,
    expired,
    account: String(account),
    ...owner,
    ...(Number(isCap) === 1 && { isCap: true }),
  };
}

export function tooLarge(maxRows: number): KeystileError {
  return new KeystileError(
    "ANALYTICS_TOO_LARGE",
    `the query reads more than ${maxRows} counts; ask for less time, or for some keys, owners or APIs`,
  );
}
