/**
 * Totals of accounts as each day, and each owner's time, ended: what statements are made of. Store clause 28.
 *
 * Why a row ends where an account changes hands: totals only grow, so that the difference of two rows is exactly what
 * happened between them, and all of it is the owner's whom the later row names.
 */
import type { CreditDay, CreditDaysQuery } from "../../../contracts/outcomes.js";
import type { Write } from "../../../contracts/store.js";
import { DAY, toCreditDay, TOTALS, TOTALS_KEPT } from "../../outcome-entries.js";
import { changed, type Handle, select } from "../connection/handle.js";
import { given, one } from "./given.js";

const SUMS = [...TOTALS_KEPT, "balance"];
const each = (write: (name: string) => string): string => SUMS.map(write).join(", ");

/** Part of the file format. `external_id` is NULL where the account is nobody's from then on. */
export const CREATE_CREDIT_DAYS = `
  CREATE TABLE keystile_credit_days (
    account INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    day INTEGER NOT NULL,
    workspace_id TEXT,
    external_id TEXT,
    ${[...TOTALS, "balance"].map((name) => `${name} INTEGER NOT NULL`).join(",\n    ")},
    PRIMARY KEY (account, seq),
    CHECK (credited + refilled + adjusted = spent + forfeited + balance)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX keystile_credit_days_of_owner ON keystile_credit_days (workspace_id, external_id) WHERE external_id <> '';
  CREATE INDEX keystile_credit_days_by_age ON keystile_credit_days (day);`;

/**
 * `until` is the day of the next row, or that of the row itself where the account is nobody's; NULL: statements need
 * it. So accounts whose last row is old cost a removal nothing.
 */
export const ENDED_TOTALS = `
  ALTER TABLE keystile_credit_days ADD COLUMN until INTEGER;
  UPDATE keystile_credit_days AS d SET until = coalesce((SELECT e.day FROM keystile_credit_days e
    WHERE e.account = d.account AND e.seq > d.seq ORDER BY e.seq LIMIT 1), CASE WHEN d.external_id IS NULL THEN d.day END);
  DROP INDEX keystile_credit_days_by_age;
  CREATE INDEX keystile_credit_days_ended ON keystile_credit_days (until) WHERE until IS NOT NULL;
  CREATE TRIGGER keystile_credit_days_added AFTER INSERT ON keystile_credit_days BEGIN
    UPDATE keystile_credit_days SET until = NEW.day
      WHERE account = NEW.account AND (seq = NEW.seq - 1 OR seq = NEW.seq AND NEW.external_id IS NULL);
  END;`;
export const ENDED_TOTALS_DOWN = `
  DROP TRIGGER keystile_credit_days_added;
  DROP INDEX keystile_credit_days_ended;
  ALTER TABLE keystile_credit_days DROP COLUMN until;
  CREATE INDEX keystile_credit_days_by_age ON keystile_credit_days (day);`;

/** Works on the table; what writes is to be called inside a transaction. */
export interface CreditDays {
  /** Keeps the totals of accounts as they are. */
  keep(accounts: Iterable<number>, at: number): void;
  /** Makes changes, and keeps the totals of what they concern before and after, if anything was ever counted. */
  around<T>(writes: readonly Write[], at: number, change: () => T): T;
  read(query: CreditDaysQuery): CreditDay[];
  /** Removes totals that ended before a day, and subjects of accounts that did. @returns the most of one kind */
  prune(day: number, most: number): number;
}

const OWNER = `
  SELECT k.number, i.workspace_id AS ws, coalesce(i.name, '') AS name FROM keystile_keys k
    LEFT JOIN keystile_identities i ON i.number = k.identity WHERE k.number = ${one("account")} AND k.deleted = 0
  UNION ALL SELECT k.number, i.workspace_id, coalesce(i.name, '') FROM keystile_keys k
    LEFT JOIN keystile_identities i ON i.number = k.identity WHERE k.account = ${one("account")} AND k.deleted = 0
  UNION ALL SELECT 0, workspace_id, name FROM keystile_identities WHERE number = -${one("account")}
  ORDER BY 1 DESC LIMIT 1`;

export function createCreditDays(handle: Handle): CreditDays {
  // An account that is gone has its last totals.
  const keepOne = handle.prepare(
    `${given("account", "day")}, owner AS (${OWNER}),
       last AS (SELECT * FROM keystile_credit_days WHERE account = ${one("account")} ORDER BY seq DESC LIMIT 1)
     INSERT INTO keystile_credit_days (account, seq, day, workspace_id, external_id, ${each((name) => name)})
       SELECT g.account, coalesce(l.seq + (l.day < g.day OR l.external_id IS NOT o.name), 1), max(g.day, coalesce(l.day, g.day)), o.ws, o.name,
         ${TOTALS_KEPT.map((name) => `coalesce(a.${name}, l.${name})`).join(", ")}, coalesce(a.remaining + a.reserved, l.balance)
       FROM given g LEFT JOIN owner o LEFT JOIN last l LEFT JOIN keystile_accounts a ON a.number = g.account
       WHERE a.number IS NOT NULL OR l.external_id IS NOT NULL
     ON CONFLICT DO UPDATE SET ${each((name) => `${name} = excluded.${name}`)}`,
  );
  const read = select<Record<string, unknown>>(
    handle,
    `${given("ws", "key", "owner", "first", "last")}
     SELECT d.account, d.external_id AS externalId, d.day * ${DAY} AS day, ${each((name) => `d.${name}`)}
     FROM keystile_credit_days d
     WHERE d.account IN (
         SELECT account FROM keystile_subjects WHERE workspace_id = ${one("ws")} AND key_id = ${one("key")} AND is_total = 0
         UNION SELECT account FROM keystile_credit_days
           WHERE workspace_id = ${one("ws")} AND external_id = ${one("owner")} AND external_id <> '')
       AND d.day < ${one("last")} AND d.seq >= coalesce(
         (SELECT max(e.seq) FROM keystile_credit_days e WHERE e.account = d.account AND e.day < ${one("first")}), 0)
     ORDER BY d.account, d.seq`,
  );
  const isNobodys = `d.external_id IS NULL AND NOT EXISTS
    (SELECT 1 FROM keystile_credit_days e WHERE e.account = d.account AND e.seq > d.seq)`;
  // Subjects first: they are found by the totals of their account.
  const removals = [
    `${given("day", "most")} DELETE FROM keystile_subjects WHERE number IN (
       SELECT s.number FROM keystile_credit_days d CROSS JOIN keystile_subjects s
       WHERE d.until < ${one("day")} AND ${isNobodys} AND s.account = d.account AND s.account <> 0 LIMIT ${one("most")})`,
    `${given("day", "most")} DELETE FROM keystile_credit_days WHERE (account, seq) IN (
       SELECT d.account, d.seq FROM keystile_credit_days d WHERE d.until < ${one("day")} AND NOT (${isNobodys}
         AND EXISTS (SELECT 1 FROM keystile_subjects s WHERE s.account = d.account AND s.account <> 0))
       LIMIT ${one("most")})`,
  ].map((sql) => handle.prepare(sql));
  const anything = select(
    handle,
    "SELECT 1 FROM keystile_flushes UNION ALL SELECT 1 FROM keystile_credit_days LIMIT 1",
  );
  const accountOf = {
    keys: select<{ n: number | bigint }>(
      handle,
      "SELECT coalesce(account, number) AS n FROM keystile_keys WHERE id = ?",
    ),
    identities: select<{ n: number | bigint }>(handle, "SELECT -number AS n FROM keystile_identities WHERE id = ?"),
  };
  const concerned = (writes: readonly Write[]): number[] =>
    writes.flatMap((write) => {
      if (write.table !== "keys" && write.table !== "identities") return [];
      const found = accountOf[write.table].get("remove" in write ? write.remove : write.row.id);
      return found === undefined ? [] : [Number(found.n)];
    });
  const keep = (accounts: Iterable<number>, at: number): void => {
    for (const account of accounts) keepOne.run(account, Math.floor(at / DAY));
  };
  return {
    keep,
    around(writes, at, change) {
      if (anything.get() === undefined) return change();
      const before = concerned(writes);
      keep(before, at);
      const result = change();
      keep(new Set([...before, ...concerned(writes)]), at);
      return result;
    },
    read: ({ workspaceId, keyId = null, externalId = null, from, to }) =>
      read.all(workspaceId, keyId, externalId, from / DAY, to / DAY).map(toCreditDay),
    prune: (day, most) => Math.max(...removals.map((statement) => changed(statement.run(day, most)))),
  };
}
