/** Inserts, updates and removes keys. Every function here runs inside the caller's transaction. */
import { isKeystileError, KeystileError } from "../../../contracts/errors.js";
import type { CreditWrite } from "../../../contracts/row-changes.js";
import type { CreditChange, CreditRow, KeyRow } from "../../../contracts/store.js";
import type { LoggedChange } from "../changes/change-log.js";
import { type Account, applyChange, isCurrent, type Lease, writtenBalance } from "../../../credits/account.js";
import { type Handle, select } from "../connection/handle.js";
import { accountOfGrant, accountOfIdentity, type Accounts, NO_LEASES } from "../credits/account-table.js";
import type { ReferenceCache } from "../tables/reference-cache.js";
import type { Effects, RowOutcome } from "../tables/run-write.js";
import { type EncodedKey, encodeKey } from "../../codec/encoded-keys.js";
import { createHashIndex, entriesOf, entryOfIdentity } from "./hash-index.js";
import { createKeyedHash, type KeyedHash } from "./keyed-hash.js";
import { createBulkInsert } from "./insert-keys.js";

/** A change of an identity with more keys than this is notified as "all". */
const MAX_NOTIFIED_KEYS = 1_000;
/**
 * More keys than this never share a hash by chance: a key that would be another one is refused, since each makes
 * finding the others slower.
 */
const MAX_PER_HASH = 8;
/** From this many keys on, `insert` is a bulk insert. */
const MIN_BULK_KEYS = 128;

const INSERT = `INSERT INTO keystile_keys (id, api, identity, version, digest, foreign_digest, deleted, grants, body)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`;
const UPDATE = `UPDATE keystile_keys SET api = ?, identity = ?, version = ?, digest = ?, foreign_digest = ?, deleted = ?, grants = ?, body = ?
  WHERE number = ?`;

/** The columns of a key that the hash index covers. */
interface Found {
  readonly n: number | bigint;
  readonly digest: string | null;
  readonly foreignDigest: string | null;
  readonly identity: number | bigint | null;
  readonly deleted: number | bigint;
  /** Number of the account that it shares; null: its own. */
  readonly account: number | bigint | null;
}

export function createKeyWriter(handle: Handle, references: ReferenceCache, accounts: Accounts) {
  const index = createHashIndex(handle);
  const hash = createKeyedHash(handle);
  const COLUMNS = "k.number AS n, k.digest, k.foreign_digest AS foreignDigest, k.identity, k.deleted, k.account";
  const at = select<Found>(
    handle,
    `SELECT ${COLUMNS} FROM keystile_key_lookup p JOIN keystile_keys k ON k.number = p.key_number
     WHERE p.hash = ? LIMIT ${MAX_PER_HASH + 1}`,
  );
  const current = select<Found>(handle, `SELECT ${COLUMNS} FROM keystile_keys k WHERE id = ? AND version = ?`);
  const insertRow = handle.prepare(INSERT);
  const updateRow = handle.prepare(UPDATE);
  const adoptRow = handle.prepare(
    "UPDATE keystile_keys SET digest = ?, version = version + 1 WHERE number = ? AND digest IS NULL",
  );
  const removeRow = handle.prepare("DELETE FROM keystile_keys WHERE number = ?");
  const accountOf = select<{ account: number | bigint }>(
    handle,
    "SELECT coalesce(account, number) AS account FROM keystile_keys WHERE id = ?",
  );
  const shareAccount = handle.prepare("UPDATE keystile_keys SET account = ? WHERE number = ?");
  const isApiDeleted = select<{ deleted: number | bigint | null }>(
    handle,
    "SELECT json_extract(body, '$.deleted') AS deleted FROM keystile_apis WHERE id = ?",
  );
  const identityById = select<{ n: number | bigint }>(
    handle,
    "SELECT number AS n FROM keystile_identities WHERE id = ?",
  );
  const grantById = select<{ n: number | bigint }>(handle, "SELECT number AS n FROM keystile_grants WHERE id = ?");
  const ofIdentity = select<{ digest: string }>(
    handle,
    `SELECT k.digest FROM keystile_key_lookup p JOIN keystile_keys k ON k.number = p.key_number
     WHERE p.hash = ? AND k.digest IS NOT NULL LIMIT ${MAX_NOTIFIED_KEYS + 1}`,
  );

  const drawing = select<{ id: string }>(
    handle,
    `SELECT k.id FROM keystile_identities i
     JOIN keystile_key_lookup p ON p.hash = -i.number JOIN keystile_keys k ON k.number = p.key_number AND k.identity = i.number
     WHERE i.number = ? AND json_extract(i.body, '$.hasCredits') AND json_extract(k.body, '$.disabled') IS NULL
       AND json_extract(k.body, '$.creditsFrom') IS NULL
       AND k.api NOT IN (SELECT number FROM keystile_apis WHERE json_extract(body, '$.deleted')) LIMIT 1`,
  );

  const addChange = (digest: string | null | undefined, changes: LoggedChange[]) => {
    if (digest !== null && digest !== undefined) changes.push({ digest });
  };
  const apiNumber = (id: string): number => {
    const n = references.apiNumber(id);
    if (n === undefined) throw apiNotFound();
    return n;
  };
  /** Not from the cache, which may not know yet what another process has deleted. */
  const requireLivingApis = (keys: readonly EncodedKey[]): void => {
    for (const id of new Set(keys.map(({ apiId }) => apiId)))
      if (Number(isApiDeleted.get(id)?.deleted) === 1) throw apiNotFound();
  };
  /** Null also for an identity that was deleted in the meantime. */
  const identityNumber = (id: string | null): number | null => {
    const found = id === null ? undefined : identityById.get(id);
    return found === undefined ? null : Number(found.n);
  };
  const identityAccount = (id: string): number | undefined => {
    const identity = identityNumber(id);
    return identity === null ? undefined : accountOfIdentity(identity);
  };
  const grantAccount = (id: string): number | undefined => {
    const found = grantById.get(id);
    return found && accountOfGrant(found.n);
  };
  /**
   * Whether a key other than `self` has its digest or foreign digest. Checked before writing: the write lock is held,
   * so the result stays true.
   */
  const isTaken = (
    { digest, foreignDigest }: EncodedKey,
    self: number | undefined,
    among: Iterable<number>,
  ): boolean => {
    for (const entry of among) {
      const sharing = entry < 0 ? [] : at.all(entry);
      if (sharing.length > MAX_PER_HASH) return true;
      for (const found of sharing) {
        if (Number(found.n) === self) continue;
        if (found.digest !== null && found.digest === digest) return true;
        if (found.foreignDigest !== null && found.foreignDigest === foreignDigest) return true;
      }
    }
    return false;
  };
  /** @returns the number of the new row */
  const insertNew = (key: EncodedKey, identity: number | null): number | undefined => {
    const { id, digest, foreignDigest, deleted, grants, body } = key;
    const entries = entriesOf(hash, { digest, foreignDigest, identity: deleted ? null : identity });
    if (isTaken(key, undefined, entries)) return undefined;
    const [api, next] = [apiNumber(key.apiId), key.version + 1];
    const result = insertRow.run(id, api, identity, next, digest, foreignDigest, deleted ? 1 : 0, grants, body);
    if (Number(result.changes) === 0) return undefined;
    const n = Number(result.lastInsertRowid);
    for (const entry of entries) index.add(entry, n);
    return n;
  };
  const update = (key: EncodedKey, old: Found): boolean => {
    const { digest, foreignDigest, deleted, grants, body } = key;
    const n = Number(old.n);
    const identity = identityNumber(key.identityId);
    const [before, after] = [
      entriesOfFound(hash, old),
      entriesOf(hash, { digest, foreignDigest, identity: deleted ? null : identity }),
    ];
    if (isTaken(key, n, after)) return false;
    const [api, next] = [apiNumber(key.apiId), key.version + 1];
    updateRow.run(api, identity, next, digest, foreignDigest, deleted ? 1 : 0, grants, body, n);
    for (const entry of after) if (!before.has(entry)) index.add(entry, n);
    for (const entry of before) if (!after.has(entry)) index.remove(entry, n);
    return true;
  };
  const insertOne = (key: EncodedKey, identity: number | null): number | undefined => {
    const n = insertNew(key, identity);
    if (n !== undefined) accounts.create([[n, key]]);
    return n;
  };
  /** @returns the number of a new key's account: its own, if the key that it replaced is gone */
  const openShared = (n: number, { accountId, rerolledFrom = accountId }: KeyRow): number => {
    const shared = rerolledFrom === undefined ? undefined : accountOf.get(rerolledFrom);
    if (accountId === undefined || shared === undefined) return n;
    shareAccount.run(Number(shared.account), n);
    return Number(shared.account);
  };
  /** @returns false: the change does not fit the account anymore */
  const changeCredits = (
    n: number,
    { row, credits: change }: { readonly row: Partial<CreditRow>; readonly credits: CreditChange },
    { balances }: Effects,
  ): boolean => {
    let before: Account | undefined;
    let leases: ReadonlyMap<string, Lease>;
    try {
      before = accounts.read(n);
      leases = accounts.leases(n);
    } catch (error) {
      // Setting the balance is how a damaged account is repaired: it starts anew, by the refill of the row.
      if (!isKeystileError(error) || error.code !== "STORE_INVALID" || change.remaining === undefined) throw error;
      const { amount = 0, rollover } = row.refill ?? {};
      const refill = { amount, ...(rollover !== undefined && { rollover }) };
      const anew = applyChange(undefined, NO_LEASES, { refill, ...change });
      accounts.dropLeases(n);
      accounts.replace(n, { ...anew.account, generation: row.generation ?? 0 });
      balances.push(writtenBalance(anew));
      return true;
    }
    if (!isCurrent(before, change)) return false;
    const after = applyChange(before, leases, change);
    accounts.replace(n, after.account);
    accounts.saveLeases(n, after.leases);
    balances.push(writtenBalance(after));
    return true;
  };
  const insertMany = createBulkInsert(handle, index, hash, accounts, { insert: insertOne, apiNumber, identityNumber });
  return {
    /**
     * One result per key. False: its id, digest or foreign digest already exists.
     * @throws KeystileError NOT_FOUND: the API of a key is deleted, or is not there
     */
    insert(keys: readonly EncodedKey[]): boolean[] {
      requireLivingApis(keys);
      if (keys.length < MIN_BULK_KEYS)
        return keys.map((key) => insertOne(key, identityNumber(key.identityId)) !== undefined);
      const inserted = insertMany(keys);
      index.mergeRecent();
      return inserted;
    },
    /** Inserts (`version` 0) or updates. */
    store(row: KeyRow, credits: CreditChange | undefined, effects: Effects): RowOutcome {
      const old = row.version === 0 ? undefined : current.get(row.id, row.version);
      if (row.version !== 0 && old === undefined) return "conflict";
      const key = encodeKey(row);
      const n = old === undefined ? insertNew(key, identityNumber(key.identityId)) : Number(old.n);
      if (n === undefined || (old !== undefined && !update(key, old))) return "taken";
      const account = old === undefined ? openShared(n, row) : Number(old.account ?? n);
      if (credits !== undefined && !changeCredits(account, { row, credits }, effects)) return "conflict";
      addChange(old?.digest, effects.changes);
      addChange(row.digest, effects.changes);
      return "written";
    },
    remove(id: string, version: number, changes: LoggedChange[]): boolean {
      const old = current.get(id, version);
      if (old === undefined) return false;
      const n = Number(old.n);
      removeRow.run(n);
      accounts.removeUnused(Number(old.account ?? n));
      for (const entry of entriesOfFound(hash, old)) index.remove(entry, n);
      addChange(old.digest, changes);
      return true;
    },
    /** Sets the digest of a key without one. False: it has one, or another key has this digest. */
    adopt(n: number, digest: string, changes: LoggedChange[]): boolean {
      const entry = hash(digest);
      if (at.all(entry).some((found) => found.digest === digest) || Number(adoptRow.run(digest, n).changes) === 0)
        return false;
      index.add(entry, n);
      changes.push({ digest });
      return true;
    },
    /** Adds the digests of an identity's keys to `changes`, or its id if none of its keys has a digest. */
    addIdentityChange(identityId: string, changes: LoggedChange[]): void {
      const identity = identityNumber(identityId);
      const digests = identity === null ? [] : ofIdentity.all(entryOfIdentity(identity));
      // Caches of names must be notified too. No key has an id as its digest.
      if (digests.length === 0) changes.push({ digest: identityId });
      if (digests.length > MAX_NOTIFIED_KEYS) changes.push("all");
      else for (const { digest } of digests) changes.push({ digest });
    },
    /** Changes the balance of a row that is stored. False: the change does not fit its account anymore. */
    changeCreditsOf(write: Exclude<CreditWrite, { readonly table: "keys" }>, effects: Effects): boolean {
      const { table, row } = write;
      const account = table === "grants" ? grantAccount(row.id) : identityAccount(row.id);
      return account !== undefined && changeCredits(account, write, effects);
    },
    /** Call before a grant is removed: its account goes. */
    forgetGrant(id: string): void {
      const account = grantAccount(id);
      if (account !== undefined) accounts.removeUnused(account);
    },
    /**
     * Call before an identity is removed: its keys stay, without an identity, and its account goes.
     * @returns false: an enabled key draws on its credits (store clause 26); nothing was changed
     */
    forgetIdentity(identityId: string): boolean {
      const identity = identityNumber(identityId);
      if (identity === null) return true;
      if (drawing.get(identity) !== undefined) return false;
      index.clear(entryOfIdentity(identity));
      accounts.removeUnused(accountOfIdentity(identity));
      return true;
    },
  };
}

export type KeyWriter = ReturnType<typeof createKeyWriter>;

function apiNotFound(): KeystileError {
  return new KeystileError("NOT_FOUND", "the API of a key to be stored does not exist");
}

function entriesOfFound(hash: KeyedHash, { digest, foreignDigest, identity, deleted }: Found): Set<number> {
  return entriesOf(hash, {
    digest,
    foreignDigest,
    identity: identity === null || Number(deleted) === 1 ? null : Number(identity),
  });
}
