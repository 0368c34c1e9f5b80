/**
 * Searches and counts keys, a slice at a time. Store clause 29.
 *
 * Why an index for `expires` and none for anything else that is searched: who looks at keys wants to know first which
 * of them end soon. Balances and last uses change with every verification, and are looked at key by key.
 */
import type { KeyCount, KeyCounts, KeyHints, KeyPosition, KeySearch, KeySlice } from "../../../contracts/store.js";
import type { FullKeyRaw } from "../../codec/key-codec.js";
import { plainPartOf } from "../../codec/search-part.js";
import { type Handle, type Select, select, type SqliteValue } from "../connection/handle.js";
import { FULL, type KeyReader } from "./find-keys.js";

const EXPIRES = "json_extract(k.body, '$.expires')";
const OWNER_EXPIRES = "json_extract(i.body, '$.expires')";
const DISABLED = "json_extract(k.body, '$.disabled')";

/** Part of the file format. */
export const CREATE_KEY_SEARCH = `
  CREATE INDEX keystile_keys_expires ON keystile_keys (api, json_extract(body, '$.expires'), id)
    WHERE deleted = 0 AND json_extract(body, '$.expires') IS NOT NULL;`;

/**
 * Identities may be disabled and expire. No table changes: `refuses` keeps versions away that would let keys in.
 */
export const OWNER_STATES = {
  up: "",
  down: "",
  refuses: {
    "identities that are disabled or expire": `SELECT count(*) AS n FROM keystile_identities
      WHERE json_extract(body, '$.enabled') = 0 OR json_extract(body, '$.expires') IS NOT NULL`,
  },
};

/**
 * Indexes deleted keys by API and by identity. `down` removes `deletedAt` and `deletedBy` from each body: an earlier
 * version refuses to read a key with a field that it does not know.
 */
export const LIST_DELETED = {
  up: `
  CREATE INDEX keystile_keys_deleted ON keystile_keys (api, id) WHERE deleted = 1;
  CREATE INDEX keystile_keys_deleted_of ON keystile_keys (identity, id) WHERE deleted = 1 AND identity IS NOT NULL;`,
  down: `DROP INDEX keystile_keys_deleted; DROP INDEX keystile_keys_deleted_of;
    UPDATE keystile_keys SET body = json_remove(body, '$.deletedAt', '$.deletedBy') WHERE deleted = 1;`,
  refuses: {},
};

/** Greater than every id. */
const AFTER_ALL = "\u{10FFFF}";

/** How keys are walked in each order: what a position is compared with, and its values. */
const ORDERS = {
  newest: {
    columns: "k.number AS n, k.id",
    where: "k.id < ?",
    by: "k.id DESC",
    start: (after?: KeyPosition): SqliteValue[] => [after?.id ?? AFTER_ALL],
    compare: (a: Place, b: Place) => (a.id < b.id ? 1 : -1),
  },
  expires: {
    columns: `k.number AS n, k.id, ${EXPIRES} AS expires`,
    where: `${EXPIRES} IS NOT NULL AND (${EXPIRES}, k.id) > (?, ?)`,
    by: `${EXPIRES}, k.id`,
    start: (after?: KeyPosition): SqliteValue[] => [after?.expires ?? -Number.MAX_SAFE_INTEGER, after?.id ?? ""],
    compare: (a: Place, b: Place) => Number(a.expires) - Number(b.expires) || (a.id < b.id ? -1 : 1),
  },
} as const;
type Order = keyof typeof ORDERS;

/** A key on the way of a walk. */
interface Place {
  readonly n: number | bigint;
  readonly id: string;
  readonly expires?: number | bigint;
}

const OF_IDENTITY = `k.number IN (SELECT key_number FROM keystile_key_lookup
    WHERE hash = -(SELECT number FROM keystile_identities WHERE id = ?))
  AND k.identity = (SELECT number FROM keystile_identities WHERE id = ?) AND +k.deleted = 0`;
/** Deleted keys are not among those that an identity is looked up for. */
const DELETED_OF_IDENTITY = `? IS NOT NULL AND k.deleted = 1
  AND k.identity = (SELECT number FROM keystile_identities WHERE id = ?)`;

/** A condition for each hint; each takes one value but `enabled`. */
const HINTS: {
  readonly [K in keyof KeyHints]-?: (value: Required<KeyHints>[K]) => readonly [string, ...SqliteValue[]];
} = {
  text: (text) => ["instr(lower(k.id || ' ' || k.body), ?) > 0", plainPartOf(text)],
  enabled: (enabled) => [`${DISABLED} IS ${enabled ? "" : "NOT "}NULL`],
  expiresBefore: (time) => [`(${EXPIRES} < ? OR ${OWNER_EXPIRES} < ?)`, time, time],
  expiresFrom: (time) => [`coalesce(${EXPIRES}, 9e99) >= ?`, time],
  usedFrom: (time) => ["(SELECT last_used FROM keystile_key_uses WHERE key_number = k.number) >= ?", time],
  creditsBelow: (credits) => [
    // Of its own account or of its identity's: which of them it draws on is looked at next.
    `EXISTS (SELECT 1 FROM keystile_accounts WHERE number IN (coalesce(k.account, k.number), -i.number)
      AND unlimited = 0 AND remaining < ?)`,
    credits,
  ],
};

export interface KeySearcher {
  searchKeys(search: KeySearch): KeySlice;
  countKeys(count: KeyCount): KeyCounts;
}

export function createKeySearch(handle: Handle, { toRow }: Pick<KeyReader, "toRow">): KeySearcher {
  const apis = select<{ n: number | bigint }>(
    handle,
    `SELECT p.number AS n FROM json_each(?) j CROSS JOIN keystile_apis p ON p.id = j.value WHERE p.workspace_id = ?`,
  );
  const walkOf = (order: Order, deleted: 0 | 1) => {
    const { columns, where, by } = ORDERS[order];
    return {
      ofApi: select<Place>(
        handle,
        `SELECT ${columns} FROM keystile_keys k WHERE k.api = ? AND k.deleted = ${deleted} AND ${where} ORDER BY ${by} LIMIT ?`,
      ),
      ofIdentity: select<Place>(
        handle,
        `SELECT ${columns} FROM keystile_keys k WHERE ${deleted ? DELETED_OF_IDENTITY : OF_IDENTITY}
           AND +k.api IN (SELECT value FROM json_each(?)) AND ${where} ORDER BY ${by} LIMIT ?`,
      ),
    };
  };
  const walks = { newest: walkOf("newest", 0), expires: walkOf("expires", 0), deleted: walkOf("newest", 1) };
  const filters = new Map<string, Select<FullKeyRaw>>();
  const counting = select<{ [K in keyof KeyCounts]-?: K extends "last" ? string | null : number | bigint | null }>(
    handle,
    `SELECT count(*) AS total, sum(disabled) AS disabled, sum(NOT disabled AND expires < ?) AS expired, max(id) AS last
     FROM (SELECT k.id, ${DISABLED} IS NOT NULL AS disabled,
         min(coalesce(${EXPIRES}, 9e99), coalesce(${OWNER_EXPIRES}, 9e99)) AS expires
       FROM keystile_keys k LEFT JOIN keystile_identities i ON i.number = k.identity
       WHERE k.api = (SELECT number FROM keystile_apis WHERE id = ? AND workspace_id = ?) AND k.deleted = 0 AND k.id > ?
       ORDER BY k.id LIMIT ?)`,
  );

  /** The next places, and whether there may be more. */
  const placesOf = (search: KeySearch): readonly [places: readonly Place[], more: boolean] => {
    const { workspaceId, apiIds, identityId, order, after, among } = search;
    const walk = walks[search.deleted ? "deleted" : order];
    const numbers = apis.all(JSON.stringify(apiIds), workspaceId).map(({ n }) => Number(n));
    const { start, compare } = ORDERS[order];
    if (identityId !== undefined) {
      const found = walk.ofIdentity.all(identityId, identityId, JSON.stringify(numbers), ...start(after), among);
      return [found, found.length === among];
    }
    // What lies beyond the last key of an API that may have more is looked at in the next slice.
    const each = numbers.length > 1 ? Math.ceil(among / numbers.length) + 1 : among;
    const streams = numbers.map((n) => walk.ofApi.all(n, ...start(after), each));
    if (streams.length === 1) return [streams[0] as Place[], streams[0]?.length === among];
    const ends = streams.filter(({ length }) => length === each).map((stream) => stream.at(-1) as Place);
    const end = ends.sort(compare)[0];
    const known = streams.flat().sort(compare);
    const sure = end === undefined ? known : known.slice(0, known.indexOf(end) + 1);
    return [sure.slice(0, among), end !== undefined || sure.length > among];
  };
  const filterOf = (hints: KeyHints): readonly [Select<FullKeyRaw>, SqliteValue[]] => {
    const conditions: string[] = [];
    const values: SqliteValue[] = [];
    for (const [name, value] of Object.entries(hints) as [keyof KeyHints, never][]) {
      const [condition, ...bound] = HINTS[name](value);
      conditions.push(`AND ${condition}`);
      values.push(...bound);
    }
    const sql = FULL.replace("FROM keystile_keys k", "FROM json_each(?) j CROSS JOIN keystile_keys k");
    const text = `${sql} WHERE k.number = j.value ${conditions.join(" ")} ORDER BY j.key LIMIT ?`;
    const filter = filters.get(text) ?? select<FullKeyRaw>(handle, text);
    filters.set(text, filter);
    return [filter, values];
  };
  return {
    searchKeys(search) {
      const { limit, mayMatch } = search;
      const [places, more] = placesOf(search);
      const [filter, values] = filterOf(mayMatch);
      const numbers = JSON.stringify(places.map(({ n }) => Number(n)));
      const keys = filter.all(numbers, ...values, limit).map(toRow);
      const looked = keys.length < limit ? places.length : places.findIndex(({ id }) => id === keys.at(-1)?.id) + 1;
      const last = places[looked - 1];
      if (last === undefined || (!more && looked === places.length)) return { keys, looked };
      return { keys, looked, last: toPosition(last) };
    },
    countKeys({ workspaceId, apiId, after = "", among, now }) {
      const found = counting.get(now, apiId, workspaceId, after, among);
      const [total, disabled, expired] = [Number(found?.total), Number(found?.disabled), Number(found?.expired)];
      const last = found?.last ?? null;
      return { total, disabled, expired, ...(total === among && last !== null && { last }) };
    },
  };
}

function toPosition({ id, expires }: Place): KeyPosition {
  return expires === undefined ? { id } : { id, expires: Number(expires) };
}
