/**
 * Totals of accounts as each day, and each owner's time, ended: what statements are made of. Store clause 28.
 *
 * Why a row ends where an account changes hands: totals only grow, so that the difference of two rows is exactly what
 * happened between them, and all of it is the owner's whom the later row names. A flush of a node whose clock was ahead
 * makes a row of a later day; what a flush after it tells is added to the row of its own day, and to those after that,
 * so that an account has one row a day and owner, however many nodes disagree.
 */
import type { CreditDay, CreditDaysQuery } from "../../../contracts/outcomes.js";
import type { Write } from "../../../contracts/store.js";
import { DAY, IS_SETTLED, toCreditDay, TOTALS, TOTALS_KEPT } from "../../outcome-entries.js";
import { IS_OPEN, OWNER_OF_GRANT } from "../connection/grants-step.js";
import { type Handle, select } from "../connection/handle.js";
import { accountOfGrantSql, type Accounts } from "../credits/account-table.js";
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

/** Whether the keys of the account took from their owner's credits too. */
export const CAPPED_DAYS = {
  up: "ALTER TABLE keystile_credit_days ADD COLUMN is_cap INTEGER NOT NULL DEFAULT 0",
  down: "ALTER TABLE keystile_credit_days DROP COLUMN is_cap",
  refuses: {},
};

/** NULL of a key that has no balance of its own any more: as it was. */
const IS_CAP = `CASE WHEN json_extract(k.body, '$.limited') IS NOT NULL THEN
  coalesce(json_extract(i.body, '$.hasCredits') AND json_extract(k.body, '$.creditsFrom') IS NULL, 0) END`;
/** Whose an account is: its identity's, or that of the newest key that has it; and whether it is a cap. */
const OWNER = `
  SELECT k.number, i.workspace_id AS ws, coalesce(i.name, '') AS name, ${IS_CAP} AS cap FROM keystile_keys k
    LEFT JOIN keystile_identities i ON i.number = k.identity WHERE k.number = ${one("main")} AND k.deleted = 0
  UNION ALL SELECT k.number, i.workspace_id, coalesce(i.name, ''), ${IS_CAP} FROM keystile_keys k
    LEFT JOIN keystile_identities i ON i.number = k.identity WHERE k.account = ${one("main")} AND k.deleted = 0
  UNION ALL SELECT 0, workspace_id, name, 0 FROM keystile_identities WHERE number = -${one("main")}
  ORDER BY 1 DESC LIMIT 1`;

/** The id of the first of the keys that have an account, which may be gone, and that of its identity. */
const keyOf = (account: string): string =>
  `coalesce((SELECT k.id FROM keystile_keys k WHERE k.number = ${account}),
    (SELECT json_extract(k.body, '$.accountId') FROM keystile_keys k WHERE k.account = ${account} LIMIT 1))`;
const identityOf = (account: string): string =>
  `(SELECT i.id FROM keystile_identities i WHERE i.number = -(${account}))`;
/** The grants beside an account. */
const grantsOf = (account: string): string => `keystile_grants g WHERE ${OWNER_OF_GRANT.replaceAll("name", "g.name")}
  = coalesce(${identityOf(account)}, ${keyOf(account)})`;
const WORKSPACE = `g.workspace_id = coalesce((SELECT i.workspace_id FROM keystile_identities i WHERE i.number = -m.account),
  (SELECT a.workspace_id FROM keystile_keys k JOIN keystile_apis a ON a.number = k.api
    WHERE k.number = m.account OR k.account = m.account LIMIT 1))`;
/** An account whose totals are kept, beside which it is, and of a grant the day on which it expires. */
interface Kept {
  readonly account: number | bigint;
  readonly main: number | bigint;
  readonly end: number | bigint | null;
}
/** A balance as it is, and its last totals: NULL where there is none. */
type State = Readonly<
  Record<
    "seq" | "day" | "cap" | "lastCap" | "remaining" | "reserved" | `now_${string}` | `last_${string}`,
    number | bigint | null
  >
> & { readonly ws: string | null; readonly name: string | null; readonly lastName: string | null };

const IS_NOBODYS = `d.external_id IS NULL AND NOT EXISTS
  (SELECT 1 FROM keystile_credit_days e WHERE e.account = d.account AND e.seq > d.seq)`;

const statements = (handle: Handle) => ({
  state: select<State>(
    handle,
    `${given("account", "main")}, owner AS (${OWNER}),
       last AS (SELECT * FROM keystile_credit_days WHERE account = ${one("account")} ORDER BY seq DESC LIMIT 1)
     SELECT o.ws, o.name, o.cap, l.seq, l.day, l.external_id AS lastName, l.is_cap AS lastCap, a.remaining, a.reserved,
       ${TOTALS_KEPT.map((name) => `a.${name} AS now_${name}`).join(", ")}, ${SUMS.map((name) => `l.${name} AS last_${name}`).join(", ")}
     FROM given g LEFT JOIN owner o LEFT JOIN last l LEFT JOIN keystile_accounts a ON a.number = g.account`,
  ),
  /** The row of a day in the time of the last owner. */
  place: select<{ seq: number | bigint }>(
    handle,
    `${given("account", "day", "name", "cap")}
     SELECT seq FROM keystile_credit_days d WHERE account = ${one("account")} AND day = ${one("day")} AND NOT EXISTS
       (SELECT 1 FROM keystile_credit_days e WHERE e.account = d.account AND e.seq >= d.seq
         AND (e.external_id IS NOT ${one("name")} OR e.is_cap <> ${one("cap")}))`,
  ),
  insert: handle.prepare(
    `INSERT INTO keystile_credit_days (account, seq, day, workspace_id, external_id, is_cap, ${each((name) => name)})
     VALUES (?, ?, ?, ?, ?, ?, ${each(() => "?")})`,
  ),
  add: handle.prepare(
    `UPDATE keystile_credit_days SET ${each((name) => `${name} = ${name} + ?`)} WHERE account = ? AND seq >= ?`,
  ),
  hasGrants: select(handle, "SELECT 1 FROM keystile_grants LIMIT 1"),
  identityBeside: select<{ account: number | bigint }>(
    handle,
    `${given("main")}, owner AS (SELECT k.number, k.identity FROM keystile_keys k
       WHERE (k.number = ${one("main")} OR k.account = ${one("main")}) AND k.deleted = 0 ORDER BY 1 DESC LIMIT 1)
     SELECT a.number AS account FROM owner o JOIN keystile_accounts a ON a.number = -o.identity`,
  ),
  grantsBeside: select<Kept>(
    handle,
    `${given("main", "ids")}, m (account) AS (SELECT main FROM given)
     SELECT ${accountOfGrantSql("g.number")} AS account, m.account AS main, json_extract(g.body, '$.expires') / ${DAY} AS end
     FROM m CROSS JOIN ${grantsOf("m.account")} AND ${WORKSPACE}
       AND (${IS_OPEN.replace("body", "g.body")} OR g.id IN (SELECT value FROM json_each(${one("ids")}))
         OR (SELECT ${IS_SETTLED} FROM keystile_credit_days d CROSS JOIN keystile_accounts a
           WHERE d.account = ${accountOfGrantSql("g.number")} AND a.number = d.account
           ORDER BY d.seq DESC LIMIT 1) IS NOT TRUE)`,
  ),
  read: select<Record<string, unknown>>(
    handle,
    `${given("ws", "key", "owner", "first", "last")}, m (account) AS (
       SELECT account FROM keystile_subjects WHERE workspace_id = ${one("ws")} AND key_id = ${one("key")} AND is_total = 0
         AND account <> 0
       UNION SELECT account FROM keystile_credit_days
         WHERE workspace_id = ${one("ws")} AND external_id = ${one("owner")} AND external_id <> ''),
     asked (account) AS (SELECT account FROM m
       UNION SELECT ${accountOfGrantSql("g.number")} FROM m CROSS JOIN ${grantsOf("m.account")} AND g.workspace_id = ${one("ws")})
     SELECT d.account, d.external_id AS externalId, d.is_cap AS isCap, d.day * ${DAY} AS day, ${each((name) => `d.${name}`)},
       ${keyOf("d.account")} AS keyId, ${identityOf("d.account")} AS identityId, g.id AS grantId,
       json_extract(g.body, '$.expires') AS expires
     FROM asked a CROSS JOIN keystile_credit_days d ON d.account = a.account
       LEFT JOIN keystile_grants g ON g.number = ${accountOfGrantSql("d.account")}
     WHERE d.seq >= coalesce(
         (SELECT min(e.seq) - 1 FROM keystile_credit_days e WHERE e.account = d.account AND e.day >= ${one("first")}),
         (SELECT max(e.seq) FROM keystile_credit_days e WHERE e.account = d.account))
       AND d.seq <= (SELECT max(e.seq) FROM keystile_credit_days e WHERE e.account = d.account AND e.day < ${one("last")})
     ORDER BY d.account, d.seq`,
  ),
  // Subjects first: they are found by the totals of their account.
  removals: [
    `${given("day", "most")} DELETE FROM keystile_subjects WHERE number IN (
       SELECT s.number FROM keystile_credit_days d CROSS JOIN keystile_subjects s
       WHERE d.until < ${one("day")} AND ${IS_NOBODYS} AND s.account = d.account AND s.account <> 0 LIMIT ${one("most")})`,
    `${given("day", "most")} DELETE FROM keystile_credit_days WHERE (account, seq) IN (
       SELECT d.account, d.seq FROM keystile_credit_days d WHERE d.until < ${one("day")} AND NOT (${IS_NOBODYS}
         AND EXISTS (SELECT 1 FROM keystile_subjects s WHERE s.account = d.account AND s.account <> 0))
       LIMIT ${one("most")})`,
  ].map((sql) => handle.prepare(sql)),
  anything: select(handle, "SELECT 1 FROM keystile_flushes UNION ALL SELECT 1 FROM keystile_credit_days LIMIT 1"),
});

export function createCreditDays(handle: Handle, { numberOf }: Pick<Accounts, "numberOf">) {
  const sql = statements(handle);
  const keepOne = ({ account, main, end }: Kept, today: number): void => {
    const found = sql.state.get(Number(account), Number(main)) as State;
    if (found.remaining === null && found.lastName === null) return;
    const [day, last] = [Math.min(today, Number(end ?? today)), Number(found.day ?? -Infinity)];
    const sums = sumsOf(found, end !== null && Number(end) < today);
    const cap = found.name === null ? 0 : Number(found.cap ?? found.lastCap);
    const isSame = found.seq !== null && found.lastName === found.name && Number(found.lastCap) === cap;
    const known = !isSame
      ? undefined
      : last === day
        ? found.seq
        : sql.place.get(Number(account), day, found.name, cap)?.seq;
    if (known !== undefined && known !== null)
      sql.add.run(
        ...SUMS.map((name, i) => (sums[i] as number) - Number(found[`last_${name}`])),
        Number(account),
        Number(known),
      );
    else {
      // The time of an owner ends no earlier than what was told of it.
      const from = isSame ? day : Math.max(day, last);
      sql.insert.run(Number(account), Number(found.seq ?? 0) + 1, from, found.ws, found.name, cap, ...sums);
    }
  };
  /** Accounts with what is kept besides them; a grant that is named, and found beside none of them, is nobody's. */
  const besides = (named: Iterable<number>, grantIds: readonly string[] = []): Map<number, Kept> => {
    const all = new Map<number, Kept>();
    for (const account of named) all.set(account, { account, main: account, end: null });
    for (const account of [...all.keys()]) {
      const identity = account > 0 ? sql.identityBeside.get(account) : undefined;
      if (identity !== undefined)
        all.set(Number(identity.account), { account: identity.account, main: identity.account, end: null });
    }
    if (sql.hasGrants.get() === undefined) return all;
    for (const account of [...all.keys()])
      for (const one of sql.grantsBeside.all(account, JSON.stringify(grantIds))) all.set(Number(one.account), one);
    return all;
  };
  const concerned = (writes: readonly Write[]): { accounts: number[]; grantIds: string[] } => {
    const accounts: number[] = [];
    const grantIds: string[] = [];
    for (const write of writes) {
      const { table } = write;
      if (table !== "keys" && table !== "identities" && table !== "grants") continue;
      const id = "remove" in write ? write.remove : write.row.id;
      const account = numberOf(table, id);
      if (account !== undefined) accounts.push(account);
      if (table === "grants") grantIds.push(id);
    }
    return { accounts, grantIds };
  };
  const keepAll = (all: ReadonlyMap<number, Kept>, at: number): void => {
    for (const one of all.values()) keepOne(one, Math.floor(at / DAY));
  };
  return {
    /** Keeps the totals of accounts, and of those besides them, as they are. */
    keep(accounts: Iterable<number>, at: number): void {
      keepAll(besides(accounts), at);
    },
    /** Makes changes, and keeps the totals of what they concern before and after, if anything was ever counted. */
    around<T>(writes: readonly Write[], at: number, change: () => T): T {
      if (sql.anything.get() === undefined) return change();
      const { accounts, grantIds } = concerned(writes);
      const before = besides(accounts, grantIds);
      keepAll(before, at);
      const result = change();
      // Not the grants themselves: those that are settled now are beside none of them, and would be nobody's.
      const mains = [...before.values()].map(({ main }) => Number(main));
      keepAll(besides([...accounts, ...mains, ...concerned(writes).accounts], grantIds), at);
      return result;
    },
    read: ({ workspaceId, keyId, externalId, from, to }: CreditDaysQuery): CreditDay[] =>
      sql.read.all(workspaceId, keyId ?? null, externalId ?? null, from / DAY, to / DAY).map(toCreditDay),
    /** Removes totals that ended before a day, and subjects of accounts that did. @returns the most of one kind */
    prune: (day: number, most: number): number =>
      Math.max(...sql.removals.map((statement) => Number(statement.run(day, most).changes))),
  };
}

/** Works on the table; what writes is to be called inside a transaction. */
export type CreditDays = ReturnType<typeof createCreditDays>;

/**
 * The balance as it is, in the order of {@link SUMS}; if its account is gone, as it was last.
 * @param isOver whether it is that of a grant which expired on an earlier day: what is left has expired
 */
function sumsOf(found: State, isOver: boolean): number[] {
  const { remaining, reserved } = found;
  if (remaining === null) return SUMS.map((name) => Number(found[`last_${name}`]));
  const left = isOver ? Number(remaining) : 0;
  const of = (name: string) => Number(found[`now_${name}`]) + (name === "forfeited" || name === "expired" ? left : 0);
  return [...TOTALS_KEPT.map(of), Number(remaining) + Number(reserved) - left];
}
