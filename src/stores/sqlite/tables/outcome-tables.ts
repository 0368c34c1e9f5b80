/**
 * Counts of verifications: a table a level, which people may read in SQL. Store clause 28.
 *
 * Why primary keys begin with the time: old periods are removed from one end, 106,000 rows in 14 ms, and a range of
 * days is read in order. Whoever asks for few subjects looks each of their rows up.
 */
import {
  type FlushResult,
  LEVELS,
  type OutcomeFlush,
  type OutcomeLevel,
  type OutcomeQuery,
  type OutcomeRow,
} from "../../../contracts/outcomes.js";
import {
  accountsOf,
  COUNT_COLUMNS,
  type Dialect,
  entriesOf,
  type EntrySubject,
  lastDayOf,
  NO_TAGS,
  OTHER_TAGS,
  refusedIn,
  selectOutcomes,
  tagTexts,
  toOutcomeRows,
} from "../../outcome-entries.js";
import { sha256Hex } from "../../../lib/sha256.js";
import { type Handle, select, type Statement } from "../connection/handle.js";
import { countRows, readCounts } from "./counted-rows.js";
import { CREATE_CREDIT_DAYS, type CreditDays, ENDED_TOTALS, ENDED_TOTALS_DOWN } from "./credit-days.js";
import { given, one } from "./given.js";
import { createRefusals } from "./refusal-table.js";

const LEVEL_NAMES = Object.keys(LEVELS) as readonly OutcomeLevel[];
const eachLevel = <T>(prepare: (level: OutcomeLevel) => T) =>
  Object.fromEntries(LEVEL_NAMES.map((level) => [level, prepare(level)])) as Readonly<Record<OutcomeLevel, T>>;

/** Part of the file format. */
export const CREATE_OUTCOMES = `
  CREATE TABLE keystile_subjects (
    number INTEGER PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    is_total INTEGER NOT NULL CHECK (is_total IN (0, 1)),
    key_id TEXT NOT NULL,
    external_id TEXT NOT NULL,
    api_id TEXT NOT NULL,
    account INTEGER NOT NULL,
    UNIQUE (workspace_id, is_total, key_id, external_id, api_id, account)
  ) STRICT;
  CREATE INDEX keystile_subjects_of_owner ON keystile_subjects (workspace_id, external_id) WHERE external_id <> '';
  CREATE TABLE keystile_tag_sets (
    number INTEGER PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    tags TEXT NOT NULL,
    UNIQUE (workspace_id, tags)
  ) STRICT;
  ${LEVEL_NAMES.map(
    (level) => `CREATE TABLE keystile_outcomes_${level} (
    bucket INTEGER NOT NULL,
    subject INTEGER NOT NULL,
    tag_set INTEGER NOT NULL,
    ${COUNT_COLUMNS.map((name) => `${name} INTEGER NOT NULL`).join(",\n    ")},
    PRIMARY KEY (bucket, subject, tag_set)
  ) STRICT, WITHOUT ROWID;`,
  ).join("\n  ")}
  CREATE TABLE keystile_flushes (source TEXT PRIMARY KEY, seq INTEGER NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  ${CREATE_CREDIT_DAYS}`;

/** The first 16 bytes of its SHA-256: nobody makes two sets with one. */
const digestOf = (tags: string): Uint8Array =>
  Uint8Array.from(sha256Hex(tags).slice(0, 32).match(/../g) as string[], (byte) => Number.parseInt(byte, 16));
const COUNTED_SETS = `%.tags NOT IN ('${NO_TAGS}', '${OTHER_TAGS}')`;

/**
 * Sets of tags are found by a digest, so that no index holds their texts; triggers keep their number. Sets and subjects
 * have the last day on which they were counted, `day`, and are removed once no count is as old.
 */
export const REMOVE_UNNAMED = {
  up: `
  ALTER TABLE keystile_tag_sets RENAME TO keystile_tag_sets_before;
  CREATE TABLE keystile_tag_sets (
    number INTEGER PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 16),
    day INTEGER NOT NULL,
    tags TEXT NOT NULL,
    UNIQUE (workspace_id, digest)
  ) STRICT;
  CREATE INDEX keystile_tag_sets_by_age ON keystile_tag_sets (day);${countRows("tag_sets", "sets", COUNTED_SETS)}
  INSERT INTO keystile_tag_sets (number, workspace_id, digest, day, tags)
    SELECT number, workspace_id, randomblob(16), coalesce((SELECT max(bucket) FROM keystile_outcomes_day), 0), tags
    FROM keystile_tag_sets_before;
  DROP TABLE keystile_tag_sets_before;
  ALTER TABLE keystile_subjects ADD COLUMN day INTEGER NOT NULL DEFAULT 0;
  UPDATE keystile_subjects SET day = coalesce((SELECT max(bucket) FROM keystile_outcomes_day), 0);
  CREATE INDEX keystile_subjects_by_age ON keystile_subjects (day) WHERE account = 0;
  CREATE INDEX keystile_subjects_of_account ON keystile_subjects (account) WHERE account <> 0;
  ${ENDED_TOTALS}`,
  /** Digests of the sets that were there. */
  fill(handle: Handle): void {
    type Row = { readonly number: number | bigint; readonly tags: string };
    const read = select<Row>(
      handle,
      "SELECT number, tags FROM keystile_tag_sets WHERE number > ? ORDER BY 1 LIMIT 100",
    );
    const write = handle.prepare("UPDATE keystile_tag_sets SET digest = ? WHERE number = ?");
    for (let page = read.all(0); page.length > 0; page = read.all(Number(page.at(-1)?.number)))
      for (const { number, tags } of page) write.run(digestOf(tags), Number(number));
  },
  down: `
  ALTER TABLE keystile_tag_sets RENAME TO keystile_tag_sets_before;
  CREATE TABLE keystile_tag_sets (
    number INTEGER PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    tags TEXT NOT NULL,
    UNIQUE (workspace_id, tags)
  ) STRICT;
  INSERT INTO keystile_tag_sets SELECT number, workspace_id, tags FROM keystile_tag_sets_before;
  DROP TABLE keystile_tag_sets_before;
  DROP TABLE keystile_tag_sets_counts;
  DROP INDEX keystile_subjects_by_age;
  DROP INDEX keystile_subjects_of_account;
  ALTER TABLE keystile_subjects DROP COLUMN day;
  ${ENDED_TOTALS_DOWN}`,
  refuses: {},
} as const;

const DIALECT: Dialect = {
  table: (name) => `keystile_${name}`,
  number: (place) => one(`v${place}`),
  text: (place) => one(`v${place}`),
  list: (place) => `(SELECT value FROM json_each(${one(`v${place}`)}))`,
  calendar: (table, from, to) => `(WITH RECURSIVE
    ends (b, last) AS (SELECT max(${from}, (SELECT min(bucket) FROM ${table})), min(${to} - 1, (SELECT max(bucket) FROM ${table}))),
    every (b, last) AS (SELECT b, last FROM ends WHERE b <= last UNION ALL SELECT b + 1, last FROM every WHERE b < last)
    SELECT b FROM every)`,
  sum: (column) => `sum(${column})`,
  plain: (column) => column,
  count: "count(*)",
  none: "0",
};

const statements = (handle: Handle) => ({
  advance: handle.prepare(
    `${given("source", "seq", "at")} INSERT INTO keystile_flushes (source, seq, at)
       SELECT g.source, g.seq, g.at FROM given g
       WHERE g.seq = 1 OR EXISTS (SELECT 1 FROM keystile_flushes f WHERE f.source = g.source)
     ON CONFLICT (source) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE excluded.seq = keystile_flushes.seq + 1`,
  ),
  lastSeq: select<{ seq: number | bigint }>(handle, "SELECT seq FROM keystile_flushes WHERE source = ?"),
  upserts: eachLevel((level) =>
    handle.prepare(
      `INSERT INTO keystile_outcomes_${level} VALUES (?, ?, ?${", ?".repeat(COUNT_COLUMNS.length)})
       ON CONFLICT DO UPDATE SET ${COUNT_COLUMNS.map((name) => `${name} = ${name} + excluded.${name}`).join(", ")}`,
    ),
  ),
  removals: eachLevel((level) =>
    handle.prepare(
      `DELETE FROM keystile_outcomes_${level} WHERE (bucket, subject, tag_set) IN
         (SELECT bucket, subject, tag_set FROM keystile_outcomes_${level} WHERE bucket < ?
          ORDER BY bucket, subject, tag_set LIMIT ?)`,
    ),
  ),
  removeFlushes: handle.prepare(
    `DELETE FROM keystile_flushes WHERE source IN (SELECT source FROM keystile_flushes WHERE at < ? LIMIT ?)`,
  ),
  /** The day of the oldest count, or the given one. */
  oldest: select<{ day: number | bigint }>(
    handle,
    `${given("day")} SELECT min(g.day, ${LEVEL_NAMES.map(
      (level) =>
        `coalesce((SELECT min(bucket) FROM keystile_outcomes_${level}) / ${LEVELS.day / LEVELS[level]}, g.day)`,
    ).join(", ")}) AS day FROM given g`,
  ),
  unnamed: [
    `DELETE FROM keystile_tag_sets WHERE number IN
       (SELECT number FROM keystile_tag_sets WHERE day < ? ORDER BY day LIMIT ?)`,
    `DELETE FROM keystile_subjects WHERE number IN
       (SELECT number FROM keystile_subjects WHERE account = 0 AND day < ? ORDER BY day LIMIT ?)`,
  ].map((sql) => handle.prepare(sql)),
});

export function createOutcomeTables(handle: Handle, creditDays: CreditDays) {
  const sql = statements(handle);
  const names = createNames(handle);
  const refusals = createRefusals(handle);
  const add = (flush: OutcomeFlush): number[] => {
    const { cells, at } = flush;
    const texts = tagTexts(cells);
    const { subjectOf, tagSetOf } = names.of(flush);
    const folded: number[] = [];
    for (const level of LEVEL_NAMES)
      for (const { bucket, of, tags, sums, place } of entriesOf(cells, texts, level)) {
        const { number, isOther } = tagSetOf(of.workspaceId, tags);
        sql.upserts[level].run(bucket, subjectOf(of), number, ...sums);
        if (isOther && level === "day" && place !== undefined && tags !== OTHER_TAGS) folded.push(place);
      }
    creditDays.keep(accountsOf(cells).map(Number), at);
    refusals.keep(refusedIn(cells));
    return folded;
  };
  return {
    count(flush: OutcomeFlush): FlushResult {
      const { source, seq, at } = flush;
      const began = performance.now();
      if (Number(sql.advance.run(source, seq, at).changes) === 0)
        return { outcome: Number(sql.lastSeq.get(source)?.seq ?? 0) >= seq ? "repeated" : "gap", folded: [] };
      return { outcome: "counted", folded: add(flush), busy: Math.round(performance.now() - began) };
    },
    read(query: OutcomeQuery): OutcomeRow[] {
      const { text, values } = selectOutcomes(query, DIALECT);
      const named = given(...values.map((_, i) => `v${i + 1}`));
      return toOutcomeRows(select<Record<string, unknown>>(handle, `${named} ${text}`).all(...values), query);
    },
    readRefusals: refusals.read,
    prune(level: OutcomeLevel, before: number, most: number): number {
      const bucket = Math.floor(before / LEVELS[level]);
      const removed = Number(sql.removals[level].run(bucket, most).changes);
      if (level === "hour") return Math.max(removed, refusals.prune(before, most));
      if (level !== "day") return removed;
      const since = Number(sql.oldest.get(bucket)?.day);
      const rest = [
        Number(sql.removeFlushes.run(before, most).changes),
        ...sql.unnamed.map((statement) => Number(statement.run(since, most).changes)),
        creditDays.prune(since, most),
      ];
      return Math.max(removed, ...rest);
    },
  };
}

/** What counts name, subjects and sets of tags: found, or added. */
function createNames(handle: Handle) {
  const findSubject = select<Named>(
    handle,
    `SELECT number, day FROM keystile_subjects WHERE workspace_id = ? AND is_total = ? AND key_id = ? AND external_id = ?
       AND api_id = ? AND account = ?`,
  );
  const addSubject = handle.prepare(
    "INSERT INTO keystile_subjects (workspace_id, is_total, key_id, external_id, api_id, account, day) VALUES (?, ?, ?, ?, ?, ?, ?)",
  );
  const findTags = select<Named>(
    handle,
    "SELECT number, day FROM keystile_tag_sets WHERE workspace_id = ? AND digest = ?",
  );
  const counts = readCounts(handle, "tag_sets", "sets");
  const addTags = handle.prepare("INSERT INTO keystile_tag_sets (workspace_id, digest, day, tags) VALUES (?, ?, ?, ?)");
  const touchSubject = handle.prepare("UPDATE keystile_subjects SET day = ? WHERE number = ?");
  const touchTags = handle.prepare("UPDATE keystile_tag_sets SET day = ? WHERE number = ?");
  return {
    /** Of one flush: what it names is there until its last day at least. Each thing is looked up once. */
    of(flush: OutcomeFlush) {
      const day = lastDayOf(flush);
      const kept = (found: Named | undefined, touch: Statement): number | undefined => {
        if (found === undefined) return undefined;
        if (Number(found.day) < day) touch.run(day, Number(found.number));
        return Number(found.number);
      };
      const tagSetOf = remember((workspaceId: string) =>
        remember((tags: string): TagSet => {
          const digest = digestOf(tags);
          const isOther = tags === OTHER_TAGS;
          const number = kept(findTags.get(workspaceId, digest), touchTags);
          if (number !== undefined) return { number, isOther };
          if (!isOther && tags !== NO_TAGS && counts.of(workspaceId) >= flush.maxTagSets)
            return tagSetOf(workspaceId)(OTHER_TAGS);
          return { number: Number(addTags.run(workspaceId, digest, day, tags).lastInsertRowid), isOther };
        }),
      );
      return {
        tagSetOf: (workspaceId: string, tags: string): TagSet => tagSetOf(workspaceId)(tags),
        subjectOf: remember((of: EntrySubject): number => {
          const { workspaceId, isTotal, keyId, externalId, apiId, account } = of;
          const total = Number(isTotal === true);
          const subject = [workspaceId, total, keyId, externalId, apiId, Number(account ?? 0)] as const;
          return (
            kept(findSubject.get(...subject), touchSubject) ?? Number(addSubject.run(...subject, day).lastInsertRowid)
          );
        }),
      };
    },
  };
}

/** What counts name, and the last day on which one did. */
interface Named {
  readonly number: number | bigint;
  readonly day: number | bigint;
}
interface TagSet {
  readonly number: number;
  /** Whether it is that of others. */
  readonly isOther: boolean;
}

/** Looks each thing up once: the rows of all levels have one subject. */
function remember<T, V>(find: (of: T) => V): (of: T) => V {
  const known = new Map<T, V>();
  return (of) => {
    const value = known.get(of) ?? find(of);
    known.set(of, value);
    return value;
  };
}
