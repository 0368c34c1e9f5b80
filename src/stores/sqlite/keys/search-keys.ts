/**
 * Searches and counts keys, a slice at a time. Store clause 29.
 *
 * Why an index for `expires` and none for anything else that is searched: who looks at keys wants to know first which
 * of them end soon. Balances and last uses change with every verification, and are looked at key by key.
 */
import type {
  KeyCount,
  KeyCounts,
  KeyHints,
  KeyPosition,
  KeyRow,
  KeySearch,
  KeySlice,
} from "../../../contracts/store.js";
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

/** In an index, where `k` has no meaning. */
const plain = (sql: string): string => sql.replaceAll("k.body", "body");

/**
 * Indexes the few keys that are disabled or expire, by id, and identities by when they expire, for counts.
 * Verifications never write these columns.
 */
export const COUNT_ENDINGS = {
  up: `
  CREATE INDEX keystile_keys_ending ON keystile_keys (api, id, ${plain(DISABLED)}, ${plain(EXPIRES)})
    WHERE deleted = 0 AND (${plain(DISABLED)} IS NOT NULL OR ${plain(EXPIRES)} IS NOT NULL);
  CREATE INDEX keystile_identities_ending ON keystile_identities (workspace_id, json_extract(body, '$.expires'))
    WHERE json_extract(body, '$.expires') IS NOT NULL;`,
  down: `DROP INDEX keystile_keys_ending; DROP INDEX keystile_identities_ending;`,
  refuses: {},
};

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

/** Below the numbers of accounts of keys and identities: those of grants. */
const GRANTS = -(2 ** 52);
/** A table that `any` walks: the number and the value of its row `a`, which rows are looked for, and their keys. */
type Numbered = Readonly<Record<"table" | "number" | "value" | "low" | "keys", string>>;
/** What `any` walks, from the highest number down: balances, or uses. */
const numbered = ({ table, number, value, low, keys }: Numbered) => ({
  bound: `SELECT count(*) AS looked, min(number) AS n FROM (SELECT ${number} AS number FROM ${table} a
    WHERE ${number} < ? AND ${number} > ${GRANTS} ORDER BY ${number} DESC LIMIT ?)`,
  // Ordered by both, so that a slice may end among the keys of one identity.
  places: `SELECT ${number} AS account, k.number AS n, k.id FROM ${table} a CROSS JOIN keystile_keys k ON k.number ${keys}
    WHERE (${number}, k.number) < (?, ?) AND ${number} <= ? AND ${number} >= ? AND ${low} AND (${value} <> ? OR k.id > ?)
      AND k.deleted = 0 AND k.api IN (SELECT value FROM json_each(?))
    ORDER BY ${number} DESC, k.number DESC LIMIT ?`,
});
const ANY = {
  credits: numbered({
    table: "keystile_accounts",
    number: "a.number",
    value: "a.remaining",
    low: "a.unlimited = 0 AND a.remaining <= ?",
    keys: `IN (SELECT a.number UNION ALL SELECT number FROM keystile_keys WHERE account = a.number
      UNION ALL SELECT key_number FROM keystile_key_lookup WHERE hash = a.number AND a.number < 0)
      AND (a.number > 0 OR k.identity = -a.number)`,
  }),
  uses: numbered({
    table: "keystile_key_uses",
    number: "a.key_number",
    value: "a.last_used",
    low: "a.last_used >= ?",
    keys: "= a.key_number",
  }),
} as const;

/** A key on the way of a walk. */
interface Place {
  readonly n: number | bigint;
  readonly id: string;
  readonly expires?: number | bigint;
  /** In the order `any`. */
  readonly account?: number | bigint;
}

const OF_IDENTITY = `k.number IN (SELECT key_number FROM keystile_key_lookup
    WHERE hash = -(SELECT number FROM keystile_identities WHERE id = ?))
  AND k.identity = (SELECT number FROM keystile_identities WHERE id = ?) AND +k.deleted = 0`;
/** Deleted keys are not among those that an identity is looked up for. */
const DELETED_OF_IDENTITY = `? IS NOT NULL AND k.deleted = 1
  AND k.identity = (SELECT number FROM keystile_identities WHERE id = ?)`;

/** A condition for each hint; each takes one value but `enabled`. `idAbove` is looked at by `any` alone. */
const HINTS: {
  readonly [K in Exclude<keyof KeyHints, "idAbove">]-?: (
    value: Required<KeyHints>[K],
  ) => readonly [string, ...SqliteValue[]];
} = {
  text: (text) => ["instr(lower(k.id || ' ' || k.body || ' ' || coalesce(i.name, '')), ?) > 0", plainPartOf(text)],
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

export function createKeySearch(handle: Handle, { toRow }: Pick<KeyReader, "toRow">) {
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
  const anyOf = ({ bound, places }: (typeof ANY)[keyof typeof ANY]) => ({
    bound: select<{ readonly looked: number | bigint; readonly n: number | bigint | null }>(handle, bound),
    places: select<Place>(handle, places),
  });
  const any = { credits: anyOf(ANY.credits), uses: anyOf(ANY.uses) };
  const filters = new Map<string, Select<FullKeyRaw>>();
  const count = createKeyCount(handle);

  const numbersOf = ({ apiIds, workspaceId }: KeySearch): number[] =>
    apis.all(JSON.stringify(apiIds), workspaceId).map(({ n }) => Number(n));
  const placesOfAny = (search: KeySearch): readonly [places: readonly Place[], last?: KeyPosition] => {
    const { after, among, limit, mayMatch } = search;
    const { creditsBelow, usedFrom = 0, idAbove = "" } = mayMatch;
    const { bound, places } = creditsBelow === undefined ? any.uses : any.credits;
    const [account = TOP, key = TOP] = after?.id.split(" ").map(Number) ?? [];
    const value = creditsBelow === undefined ? usedFrom : creditsBelow - 1;
    const { looked = 0, n } = bound.get(account, among) ?? {};
    const end = Number(n ?? account);
    const apiNumbers = JSON.stringify(numbersOf(search));
    const found = places.all(account, key, account, end, value, value, idAbove, apiNumbers, limit);
    if (found.length === limit) return [found, toPosition(found.at(-1) as Place)];
    return Number(looked) === among ? [found, { id: `${end} 0` }] : [found];
  };
  /** The next places, and whether there may be more. */
  const placesOf = (search: KeySearch, order: Order): readonly [places: readonly Place[], more: boolean] => {
    const { identityId, after, among } = search;
    const numbers = numbersOf(search);
    const walk = walks[search.deleted ? "deleted" : order];
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
      if (name === "idAbove") continue;
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
  const read = (places: readonly Place[], hints: KeyHints, limit: number): KeyRow[] => {
    const [filter, values] = filterOf(hints);
    return filter.all(JSON.stringify(places.map(({ n }) => Number(n))), ...values, limit).map(toRow);
  };
  return {
    searchKeys(search: KeySearch): KeySlice {
      const { order, limit, mayMatch } = search;
      if (order === "any") {
        const [places, last] = placesOfAny(search);
        const keys = read(places, mayMatch, limit);
        return { keys, looked: keys.length, ...(last !== undefined && { last }) };
      }
      const [places, more] = placesOf(search, order);
      const keys = read(places, mayMatch, limit);
      const looked = keys.length < limit ? places.length : places.findIndex(({ id }) => id === keys.at(-1)?.id) + 1;
      const last = places[looked - 1];
      if (last === undefined || (!more && looked === places.length)) return { keys, looked };
      return { keys, looked, last: toPosition(last) };
    },
    countKeys: count,
  };
}

/** Greater than the number of any account. */
const TOP = Number.MAX_SAFE_INTEGER;

function toPosition({ n, id, expires, account }: Place): KeyPosition {
  if (account !== undefined) return { id: `${account} ${n}` };
  return { id, ...(expires !== undefined && { expires: Number(expires) }) };
}

/** Begins a position among identities, which an id never has. */
const OWNERS = "owners ";
/** Identities that are looked at together, at most. */
const MAX_OWNERS = 64;

/**
 * Counts keys from indexes alone. One index by id gives the total; a partial index holds only keys that are disabled or
 * have an expiry, which are few, and gives these two counts. Keys of expired identities are counted last, one identity
 * after the other.
 */
function createKeyCount(handle: Handle): (count: KeyCount) => KeyCounts {
  type Counted<K extends string> = { readonly [N in K]: number | bigint | null };
  const OF_API = "k.api = (SELECT number FROM keystile_apis WHERE id = ? AND workspace_id = ?) AND k.deleted = 0";
  const listed = select<Counted<"total"> & { readonly last: string | null }>(
    handle,
    `SELECT count(*) AS total, max(id) AS last
     FROM (SELECT k.id FROM keystile_keys k WHERE ${OF_API} AND k.id > ? ORDER BY k.id LIMIT ?)`,
  );
  const ending = select<Counted<"disabled" | "expired">>(
    handle,
    `SELECT count(${DISABLED}) AS disabled, sum(${DISABLED} IS NULL AND ${EXPIRES} < ?) AS expired FROM keystile_keys k
     WHERE ${OF_API} AND (${DISABLED} IS NOT NULL OR ${EXPIRES} IS NOT NULL) AND k.id > ? AND k.id <= ?`,
  );
  const owners = select<Counted<"number" | "expires">>(
    handle,
    `SELECT i.number, ${OWNER_EXPIRES} AS expires FROM keystile_identities i
     WHERE i.workspace_id = ? AND ${OWNER_EXPIRES} IS NOT NULL AND ${OWNER_EXPIRES} >= ? AND ${OWNER_EXPIRES} < ?
       AND (${OWNER_EXPIRES}, i.number) > (?, ?) ORDER BY ${OWNER_EXPIRES}, i.number LIMIT ?`,
  );
  const owned = select<Counted<"looked" | "expired">>(
    handle,
    `SELECT count(*) AS looked, sum(${DISABLED} IS NULL AND coalesce(${EXPIRES}, 9e99) >= ?) AS expired
     FROM keystile_key_lookup p CROSS JOIN keystile_keys k ON k.number = p.key_number
     WHERE p.hash = -? AND k.identity = ? AND ${OF_API}`,
  );
  const ofOwners = ({ workspaceId, apiId, among, now }: KeyCount, from: number, above: number): KeyCounts => {
    let [looked, expired] = [0, 0];
    const found = owners.all(workspaceId, from, now, from, above, MAX_OWNERS);
    for (const [i, { number, expires }] of found.entries()) {
      const n = Number(number);
      const of = owned.get(now, n, n, apiId, workspaceId);
      expired += Number(of?.expired);
      looked += Number(of?.looked);
      const isLast = i + 1 === found.length && i + 1 < MAX_OWNERS;
      if ((looked >= among || i + 1 === MAX_OWNERS) && !isLast)
        return { total: 0, disabled: 0, expired, last: `${OWNERS}${expires} ${n}` };
    }
    return { total: 0, disabled: 0, expired };
  };
  return (count) => {
    const { workspaceId, apiId, after = "", among, now } = count;
    if (after.startsWith(OWNERS)) {
      const [from = 0, above = 0] = after.slice(OWNERS.length).split(" ").map(Number);
      return ofOwners(count, from, above);
    }
    const { total, last } = listed.get(apiId, workspaceId, after, among) ?? { total: 0, last: null };
    const few = ending.get(now, apiId, workspaceId, after, last);
    const counts = { total: Number(total), disabled: Number(few?.disabled), expired: Number(few?.expired) };
    if (last !== null && counts.total === among) return { ...counts, last };
    const start = -Number.MAX_SAFE_INTEGER;
    const hasOwners = owners.get(workspaceId, start, now, start, 0, 1) !== undefined;
    return hasOwners ? { ...counts, last: `${OWNERS}${start} 0` } : counts;
  };
}
