/** Inserts, updates and removes keys. Every function here runs inside the caller's transaction. */
import { KeystileError } from "../../../contracts/errors.js";
import type { CreditChange, KeyRow } from "../../../contracts/store.js";
import type { LoggedChange } from "../changes/change-log.js";
import { type Handle, select, type SqliteValue } from "../connection/handle.js";
import type { Accounts } from "../credits/account-table.js";
import { writeBalance } from "../credits/write-balance.js";
import type { ReferenceCache } from "../tables/reference-cache.js";
import type { Effects, RowOutcome } from "../tables/run-write.js";
import { type EncodedKey, encodeKey } from "../../codec/encoded-keys.js";
import { createHashIndex, entriesOf, entryOfIdentity, type HashIndex } from "./hash-index.js";
import { createBulkInsert, type KeysOneByOne } from "./insert-keys.js";
import { createKeyedHash, type KeyedHash } from "./keyed-hash.js";

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
interface Indexed {
  readonly digest: string | null;
  readonly foreignDigest: string | null;
  readonly identity: number | bigint | null;
  readonly deleted: number | bigint | boolean;
}
interface Found extends Indexed {
  readonly n: number | bigint;
  /** Number of the account that it shares; null: its own. */
  readonly account: number | bigint | null;
}

const statements = (handle: Handle) => {
  const COLUMNS = "k.number AS n, k.digest, k.foreign_digest AS foreignDigest, k.identity, k.deleted, k.account";
  return {
    at: select<Found>(
      handle,
      `SELECT ${COLUMNS} FROM keystile_key_lookup p JOIN keystile_keys k ON k.number = p.key_number
       WHERE p.hash = ? LIMIT ${MAX_PER_HASH + 1}`,
    ),
    current: select<Found>(handle, `SELECT ${COLUMNS} FROM keystile_keys k WHERE id = ? AND version = ?`),
    insert: handle.prepare(INSERT),
    update: handle.prepare(UPDATE),
    adopt: handle.prepare(
      "UPDATE keystile_keys SET digest = ?, version = version + 1 WHERE number = ? AND digest IS NULL",
    ),
    remove: handle.prepare("DELETE FROM keystile_keys WHERE number = ?"),
    shareAccount: handle.prepare("UPDATE keystile_keys SET account = ? WHERE number = ?"),
    isApiDeleted: select<{ deleted: number | bigint | null }>(
      handle,
      "SELECT json_extract(body, '$.deleted') AS deleted FROM keystile_apis WHERE id = ?",
    ),
    identity: select<{ n: number | bigint }>(handle, "SELECT number AS n FROM keystile_identities WHERE id = ?"),
    ofIdentity: select<{ digest: string }>(
      handle,
      `SELECT k.digest FROM keystile_key_lookup p JOIN keystile_keys k ON k.number = p.key_number
       WHERE p.hash = ? AND k.digest IS NOT NULL LIMIT ${MAX_NOTIFIED_KEYS + 1}`,
    ),
    drawing: select<{ id: string }>(
      handle,
      `SELECT k.id FROM keystile_identities i
       JOIN keystile_key_lookup p ON p.hash = -i.number JOIN keystile_keys k ON k.number = p.key_number AND k.identity = i.number
       WHERE i.number = ? AND json_extract(i.body, '$.hasCredits') AND json_extract(k.body, '$.disabled') IS NULL
         AND json_extract(k.body, '$.creditsFrom') IS NULL
         AND k.api NOT IN (SELECT number FROM keystile_apis WHERE json_extract(body, '$.deleted')) LIMIT 1`,
    ),
  };
};

/** Writes rows of keys, their entries in the hash index and their accounts. */
export class KeyWriter implements KeysOneByOne {
  readonly index: HashIndex;
  readonly hash: KeyedHash;
  readonly accounts: Accounts;
  readonly #sql: ReturnType<typeof statements>;
  readonly #references: ReferenceCache;
  readonly #insertMany: (keys: readonly EncodedKey[]) => boolean[];

  constructor(handle: Handle, references: ReferenceCache, accounts: Accounts) {
    this.index = createHashIndex(handle);
    this.hash = createKeyedHash(handle);
    this.accounts = accounts;
    this.#sql = statements(handle);
    this.#references = references;
    this.#insertMany = createBulkInsert(handle, this);
  }

  /**
   * One result per key. False: its id, digest or foreign digest already exists.
   * @throws KeystileError NOT_FOUND: the API of a key is deleted, or is not there
   */
  insert(keys: readonly EncodedKey[]): boolean[] {
    this.#requireLivingApis(keys);
    if (keys.length < MIN_BULK_KEYS)
      return keys.map((key) => this.insertOne(key, this.identityNumber(key.identityId)) !== undefined);
    const inserted = this.#insertMany(keys);
    this.index.mergeRecent();
    return inserted;
  }

  insertOne(key: EncodedKey, identity: number | null): number | undefined {
    const n = this.#insertRow(key, identity);
    if (n !== undefined) this.accounts.create([[n, key]]);
    return n;
  }

  apiNumber(id: string): number {
    const number = this.#references.apiNumber(id);
    if (number === undefined) throw apiNotFound();
    return number;
  }

  /** Null also for an identity that was deleted in the meantime. */
  identityNumber(id: string | null): number | null {
    const found = id === null ? undefined : this.#sql.identity.get(id);
    return found === undefined ? null : Number(found.n);
  }

  /** Inserts (`version` 0) or updates. */
  store(row: KeyRow, credits: CreditChange | undefined, { changes, balances }: Effects): RowOutcome {
    const old = row.version === 0 ? undefined : this.#sql.current.get(row.id, row.version);
    if (row.version !== 0 && old === undefined) return "conflict";
    const key = encodeKey(row);
    const n = old === undefined ? this.#insertRow(key, this.identityNumber(key.identityId)) : Number(old.n);
    if (n === undefined || (old !== undefined && !this.#update(key, old))) return "taken";
    const account = old === undefined ? this.#openShared(n, row) : Number(old.account ?? n);
    const balance = credits && writeBalance(this.accounts, account, { row, credits });
    if (balance !== undefined) balances.push(balance);
    else if (credits !== undefined) return "conflict";
    addChange(old?.digest, changes);
    addChange(row.digest, changes);
    return "written";
  }

  remove(id: string, version: number, changes: LoggedChange[]): boolean {
    const old = this.#sql.current.get(id, version);
    if (old === undefined) return false;
    const n = Number(old.n);
    this.#sql.remove.run(n);
    this.accounts.removeUnused(Number(old.account ?? n));
    for (const entry of this.#entriesOf(old)) this.index.remove(entry, n);
    addChange(old.digest, changes);
    return true;
  }

  /** Sets the digest of a key without one. False: it has one, or another key has this digest. */
  adopt(n: number, digest: string, changes: LoggedChange[]): boolean {
    const entry = this.hash(digest);
    if (this.#sql.at.all(entry).some((found) => found.digest === digest)) return false;
    if (Number(this.#sql.adopt.run(digest, n).changes) === 0) return false;
    this.index.add(entry, n);
    changes.push({ digest });
    return true;
  }

  /** Adds the digests of an identity's keys to `changes`, or its id if none of its keys has a digest. */
  addIdentityChange(identityId: string, changes: LoggedChange[]): void {
    const identity = this.identityNumber(identityId);
    const digests = identity === null ? [] : this.#sql.ofIdentity.all(entryOfIdentity(identity));
    // Caches of names must be notified too. No key has an id as its digest.
    if (digests.length === 0) changes.push({ digest: identityId });
    if (digests.length > MAX_NOTIFIED_KEYS) changes.push("all");
    else for (const { digest } of digests) changes.push({ digest });
  }

  /**
   * Call before an identity is removed: its keys stay, without an identity.
   * @returns false: an enabled key draws on its credits (store clause 26); nothing was changed
   */
  forgetIdentity(identityId: string): boolean {
    const identity = this.identityNumber(identityId);
    if (identity === null) return true;
    if (this.#sql.drawing.get(identity) !== undefined) return false;
    this.index.clear(entryOfIdentity(identity));
    return true;
  }

  /** Not from the cache, which may not know yet what another process has deleted. */
  #requireLivingApis(keys: readonly EncodedKey[]): void {
    for (const id of new Set(keys.map(({ apiId }) => apiId)))
      if (Number(this.#sql.isApiDeleted.get(id)?.deleted) === 1) throw apiNotFound();
  }

  /** Every entry of a key in the index. A deleted one is not listed under its identity. */
  #entriesOf({ digest, foreignDigest, identity, deleted }: Indexed): Set<number> {
    const listed = identity === null || Number(deleted) === 1 ? null : Number(identity);
    return entriesOf(this.hash, { digest, foreignDigest, identity: listed });
  }

  /**
   * Whether a key other than `self` has its digest or foreign digest. Checked before writing: the write lock is held,
   * so the result stays true.
   */
  #isTaken({ digest, foreignDigest }: EncodedKey, self: number | undefined, among: Iterable<number>): boolean {
    for (const entry of among) {
      const sharing = entry < 0 ? [] : this.#sql.at.all(entry);
      if (sharing.length > MAX_PER_HASH) return true;
      for (const found of sharing) {
        if (Number(found.n) === self) continue;
        if (found.digest !== null && found.digest === digest) return true;
        if (found.foreignDigest !== null && found.foreignDigest === foreignDigest) return true;
      }
    }
    return false;
  }

  /** @returns the number of the new row */
  #insertRow(key: EncodedKey, identity: number | null): number | undefined {
    const entries = this.#entriesOf({ ...key, identity });
    if (this.#isTaken(key, undefined, entries)) return undefined;
    const result = this.#sql.insert.run(key.id, ...this.#columnsOf(key, identity));
    if (Number(result.changes) === 0) return undefined;
    const n = Number(result.lastInsertRowid);
    for (const entry of entries) this.index.add(entry, n);
    return n;
  }

  #update(key: EncodedKey, old: Found): boolean {
    const n = Number(old.n);
    const identity = this.identityNumber(key.identityId);
    const [before, after] = [this.#entriesOf(old), this.#entriesOf({ ...key, identity })];
    if (this.#isTaken(key, n, after)) return false;
    this.#sql.update.run(...this.#columnsOf(key, identity), n);
    for (const entry of after) if (!before.has(entry)) this.index.add(entry, n);
    for (const entry of before) if (!after.has(entry)) this.index.remove(entry, n);
    return true;
  }

  /** The columns that an insert and an update have in common. */
  #columnsOf(key: EncodedKey, identity: number | null): SqliteValue[] {
    const { apiId, version, digest, foreignDigest, deleted, grants, body } = key;
    return [this.apiNumber(apiId), identity, version + 1, digest, foreignDigest, deleted ? 1 : 0, grants, body];
  }

  /** @returns the number of a new key's account: its own, if the key that it replaced is gone */
  #openShared(n: number, { accountId, rerolledFrom = accountId }: KeyRow): number {
    const shared = rerolledFrom === undefined ? undefined : this.accounts.numberOf("keys", rerolledFrom);
    if (accountId === undefined || shared === undefined) return n;
    this.#sql.shareAccount.run(shared, n);
    return shared;
  }
}

function addChange(digest: string | null | undefined, changes: LoggedChange[]): void {
  if (digest !== null && digest !== undefined) changes.push({ digest });
}

function apiNotFound(): KeystileError {
  return new KeystileError("NOT_FOUND", "the API of a key to be stored does not exist");
}
