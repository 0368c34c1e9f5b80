/** Encodes new keys as SQL stores keep them. */
import type { KeyRow, NewBalance, NewKey } from "../../contracts/store.js";
import { encodeBody, encodeGrants } from "./key-codec.js";

/** Encodes a row. `version` and `balance` are passed through. */
export function encodeKey(row: KeyRow, balance?: NewBalance, grants = encodeGrants(row)) {
  return {
    id: row.id,
    apiId: row.apiId,
    identityId: row.identityId ?? null,
    version: row.version,
    digest: row.digest ?? null,
    foreignDigest: row.foreignDigest ?? null,
    deleted: row.deleted,
    grants,
    body: encodeBody(row),
    generation: row.generation,
    balance,
  };
}

/** A new key with its fields encoded as they are bound. */
export type EncodedKey = Readonly<ReturnType<typeof encodeKey>>;

/** Encodes many rows. Consecutive keys with the same grants often share the same lists, which are then encoded once. */
export function encodeKeys(keys: readonly NewKey[]): EncodedKey[] {
  // Not cached between calls: the caller may have changed the lists since.
  let last: readonly [row: KeyRow, text: string] | undefined;
  return keys.map(({ row, balance }) => {
    if (last?.[0].permissions !== row.permissions || last[0].roles !== row.roles) last = [row, encodeGrants(row)];
    return encodeKey(row, balance, last[1]);
  });
}
