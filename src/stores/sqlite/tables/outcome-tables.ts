/**
 * Counts of verifications: a table a level, which people may read in SQL. Store clause 28.
 *
 * Why primary keys begin with the time: old periods are removed from one end, 106,000 rows in 14 ms, and a range of
 * days is read in order. Whoever asks for few subjects looks each of their rows up.
 */
import {
  type FlushOutcome,
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
  OTHER_TAGS,
  type EntrySubject,
  selectOutcomes,
  toOutcomeRows,
} from "../../outcome-entries.js";
import { changed, type Handle, select } from "../connection/handle.js";
import { CREATE_CREDIT_DAYS, type CreditDays } from "./credit-days.js";
import { given, one } from "./given.js";

const LEVEL_NAMES = Object.keys(LEVELS) as readonly OutcomeLevel[];

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

/** Works on the tables; what writes is to be called inside a transaction. */
export interface OutcomeTables {
  count(flush: OutcomeFlush): FlushOutcome;
  read(query: OutcomeQuery): OutcomeRow[];
  prune(level: OutcomeLevel, before: number, most: number): number;
}

export function createOutcomeTables(handle: Handle, creditDays: CreditDays): OutcomeTables {
  const advance = handle.prepare(
    `${given("source", "seq", "at")} INSERT INTO keystile_flushes (source, seq, at)
       SELECT g.source, g.seq, g.at FROM given g
       WHERE g.seq = 1 OR EXISTS (SELECT 1 FROM keystile_flushes f WHERE f.source = g.source)
     ON CONFLICT (source) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE excluded.seq = keystile_flushes.seq + 1`,
  );
  const lastSeq = select<{ seq: number | bigint }>(handle, "SELECT seq FROM keystile_flushes WHERE source = ?");
  const findSubject = select<{ number: number | bigint }>(
    handle,
    `SELECT number FROM keystile_subjects WHERE workspace_id = ? AND is_total = ? AND key_id = ? AND external_id = ?
       AND api_id = ? AND account = ?`,
  );
  const addSubject = handle.prepare(
    "INSERT INTO keystile_subjects (workspace_id, is_total, key_id, external_id, api_id, account) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const findTags = select<{ number: number | bigint }>(
    handle,
    "SELECT number FROM keystile_tag_sets WHERE workspace_id = ? AND tags = ?",
  );
  const addTags = handle.prepare(
    `${given("ws", "tags", "most")} INSERT INTO keystile_tag_sets (workspace_id, tags)
       SELECT g.ws, g.tags FROM given g WHERE g.tags = '${OTHER_TAGS}'
         OR (SELECT count(*) FROM keystile_tag_sets t WHERE t.workspace_id = g.ws) < g.most`,
  );
  const upserts = LEVEL_NAMES.map(
    (level) =>
      [
        level,
        handle.prepare(
          `INSERT INTO keystile_outcomes_${level} VALUES (?, ?, ?${", ?".repeat(COUNT_COLUMNS.length)})
       ON CONFLICT DO UPDATE SET ${COUNT_COLUMNS.map((name) => `${name} = ${name} + excluded.${name}`).join(", ")}`,
        ),
      ] as const,
  );
  const removals = Object.fromEntries(
    LEVEL_NAMES.map((level) => [
      level,
      handle.prepare(
        `DELETE FROM keystile_outcomes_${level} WHERE (bucket, subject, tag_set) IN
           (SELECT bucket, subject, tag_set FROM keystile_outcomes_${level} WHERE bucket < ?
            ORDER BY bucket, subject, tag_set LIMIT ?)`,
      ),
    ]),
  );
  const removeFlushes = handle.prepare(
    `DELETE FROM keystile_flushes WHERE source IN (SELECT source FROM keystile_flushes WHERE at < ? LIMIT ?)`,
  );

  const subjectOf = ({ workspaceId, isTotal, keyId, externalId, apiId, account }: EntrySubject): number => {
    const subject = [workspaceId, Number(isTotal === true), keyId, externalId, apiId, Number(account ?? 0)] as const;
    return Number(findSubject.get(...subject)?.number ?? addSubject.run(...subject).lastInsertRowid);
  };
  const tagSetOf = (workspaceId: string, tags: string, most: number): number => {
    const found = findTags.get(workspaceId, tags)?.number;
    if (found !== undefined) return Number(found);
    const added = addTags.run(workspaceId, tags, most);
    return changed(added) > 0 ? Number(added.lastInsertRowid) : tagSetOf(workspaceId, OTHER_TAGS, most);
  };
  return {
    count({ source, seq, at, cells, maxTagSets }) {
      if (changed(advance.run(source, seq, at)) === 0)
        return Number(lastSeq.get(source)?.seq ?? 0) >= seq ? "repeated" : "gap";
      const subjects = remember(subjectOf);
      const tagSets = new Map<string, (tags: string) => number>();
      for (const [level, upsert] of upserts)
        for (const { bucket, of, tags, sums } of entriesOf(cells, level)) {
          const { workspaceId } = of;
          let tagSet = tagSets.get(workspaceId);
          if (tagSet === undefined)
            tagSets.set(workspaceId, (tagSet = remember((one: string) => tagSetOf(workspaceId, one, maxTagSets))));
          upsert.run(bucket, subjects(of), tagSet(tags), ...sums);
        }
      creditDays.keep(accountsOf(cells).map(Number), at);
      return "counted";
    },
    read(query) {
      const { text, values } = selectOutcomes(query, DIALECT);
      const names = given(...values.map((_, i) => `v${i + 1}`));
      return toOutcomeRows(select<Record<string, unknown>>(handle, `${names} ${text}`).all(...values), query);
    },
    prune(level, before, most) {
      const bucket = Math.floor(before / LEVELS[level]);
      if (level === "day") {
        removeFlushes.run(before, most);
        creditDays.prune(before, most);
      }
      return changed((removals[level] as (typeof upserts)[0][1]).run(bucket, most));
    },
  };
}

/** Looks each thing up once: the rows of all levels have one subject. */
function remember<T>(find: (of: T) => number): (of: T) => number {
  const known = new Map<T, number>();
  return (of) => {
    const number = known.get(of) ?? find(of);
    known.set(of, number);
    return number;
  };
}
