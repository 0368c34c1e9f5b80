/** Keys going in, changed and removed. Clauses 4, 13, 15, ruling E4. Every function here runs inside a transaction of its caller. */
import { VerifierError } from "../../errors.js";
import type { Change, CreditChange, KeyRow, NewKey } from "../../store.js";
import { change } from "../balance.js";
import type { Directory } from "./directory.js";
import { changed, select, type Handle } from "./handle.js";
import { type Digests, digestsOf, encodeBody, encodeGrants } from "./key-rows.js";
import type { Ledger } from "./ledger.js";
import { textHash } from "./text-hash.js";

export interface KeyWriter {
  /** False: its id, digest or hash is there already. */
  insert(key: NewKey): boolean;
  /** False: it is not as it was read, or its digest or hash is taken. `version` 0 inserts. */
  store(row: KeyRow, credits: CreditChange | undefined, changes: Change[]): boolean;
  remove(id: string, version: number, changes: Change[]): boolean;
  adopt(n: number, digest: string, changes: Change[]): boolean;
  /** Every key of an identity was changed with it. */
  tellOfIdentity(identityId: string, changes: Change[]): void;
}

/** More keys of one identity than this are told as "all". */
const MOST_TOLD = 1_000;

// Looked for first, by statements of their own: `INSERT … SELECT … WHERE NOT EXISTS` copies through a temporary table, 7.0 µs
// against 4.2. The write lock is held meanwhile, so what was free stays free.
const BY_DIGEST = "SELECT n FROM keystile_keys WHERE digest_hash = ? AND digest = ?";
const BY_FOREIGN_DIGEST = "SELECT n FROM keystile_keys WHERE (foreign_hash = ? OR digest_hash = ?) AND foreign_digest = ?";
const INSERT = `INSERT INTO keystile_keys (id, api, identity, version, digest, digest_hash, foreign_digest, foreign_hash, grants, body)
  VALUES (?, ?, (SELECT n FROM keystile_identities WHERE id = ?), ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`;
const UPDATE = `UPDATE keystile_keys SET api = ?, identity = (SELECT n FROM keystile_identities WHERE id = ?), version = ?,
  digest = ?, digest_hash = ?, foreign_digest = ?, foreign_hash = ?, grants = ?, body = ? WHERE n = ?`;
const ADOPT = "UPDATE keystile_keys SET digest = ?, digest_hash = ?, version = version + 1 WHERE n = ? AND digest IS NULL";

interface Numbered {
  readonly n: number | bigint;
}

export function createKeyWriter(handle: Handle, directory: Directory, ledger: Ledger): KeyWriter {
  const byDigest = select<Numbered>(handle, BY_DIGEST);
  const byForeignDigest = select<Numbered>(handle, BY_FOREIGN_DIGEST);
  const insertRow = handle.prepare(INSERT);
  const updateRow = handle.prepare(UPDATE);
  const adoptRow = handle.prepare(ADOPT);
  const removeRow = handle.prepare("DELETE FROM keystile_keys WHERE id = ? AND version = ?");
  const current = select<Numbered & { digest: string | null }>(handle, "SELECT n, digest FROM keystile_keys WHERE id = ? AND version = ?");
  const digestsOfIdentity = select<{ digest: string }>(
    handle,
    `SELECT digest FROM keystile_keys
     WHERE identity = (SELECT n FROM keystile_identities WHERE id = ?) AND digest IS NOT NULL LIMIT ${MOST_TOLD + 1}`,
  );

  const tell = (digest: string | null | undefined, changes: Change[]) => {
    if (digest !== null && digest !== undefined) changes.push({ digest });
  };
  const apiNumber = ({ apiId }: KeyRow): number => {
    const n = directory.apiNumber(apiId);
    if (n === undefined) throw new VerifierError("NOT_FOUND", "the API of a key to be stored does not exist");
    return n;
  };
  /** Whether a key other than number `own` has one of these digests. */
  const isTaken = ({ digest, digestHash, foreignDigest, foreignPlace }: Digests, own: number | undefined): boolean => {
    const native = digest === null ? undefined : byDigest.get(digestHash, digest);
    if (native !== undefined && Number(native.n) !== own) return true;
    const foreign = foreignDigest === null ? undefined : byForeignDigest.get(foreignPlace, foreignPlace, foreignDigest);
    return foreign !== undefined && Number(foreign.n) !== own;
  };
  const columnsOf = (row: KeyRow, { digest, digestHash, foreignDigest, foreignHash }: Digests) =>
    [
      apiNumber(row),
      row.identityId ?? null,
      row.version + 1,
      digest,
      digestHash,
      foreignDigest,
      foreignHash,
      encodeGrants(row),
      encodeBody(row),
    ] as const;
  /** @returns the number of the new row */
  const insertNew = (row: KeyRow): number | undefined => {
    const digests = digestsOf(row);
    if (isTaken(digests, undefined)) return undefined;
    const result = insertRow.run(row.id, ...columnsOf(row, digests));
    return changed(result) === 1 ? Number(result.lastInsertRowid) : undefined;
  };
  const update = (row: KeyRow, n: number): boolean => {
    const digests = digestsOf(row);
    return !isTaken(digests, n) && changed(updateRow.run(...columnsOf(row, digests), n)) === 1;
  };
  return {
    insert({ row, balance }) {
      const n = insertNew(row);
      if (n === undefined) return false;
      if (balance === undefined) return true;
      const { remaining, amount, period } = balance;
      ledger.replace(n, { unlimited: false, remaining, amount, period, generation: row.generation }, false);
      return true;
    },
    store(row, credits, changes) {
      const old = row.version === 0 ? undefined : current.get(row.id, row.version);
      if (row.version !== 0 && old === undefined) return false;
      const n = old === undefined ? insertNew(row) : Number(old.n);
      if (n === undefined || (old !== undefined && !update(row, n))) return false;
      if (credits !== undefined) ledger.replace(n, change(ledger.peek(n), credits), credits.remaining !== undefined);
      tell(old?.digest, changes);
      tell(row.digest, changes);
      return true;
    },
    remove(id, version, changes) {
      tell(current.get(id, version)?.digest, changes);
      return changed(removeRow.run(id, version)) === 1;
    },
    adopt(n, digest, changes) {
      const hash = textHash(digest);
      if (byDigest.get(hash, digest) !== undefined || changed(adoptRow.run(digest, hash, n)) !== 1) return false;
      changes.push({ digest });
      return true;
    },
    tellOfIdentity(identityId, changes) {
      const digests = digestsOfIdentity.all(identityId);
      if (digests.length > MOST_TOLD) changes.push("all");
      else for (const { digest } of digests) changes.push({ digest });
    },
  };
}
