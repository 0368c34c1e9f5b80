/**
 * Reads keys: by digest, by id, and lists. A find reads one row; the rows it refers to come from the reference cache.
 */
import { KeystileError } from "../../../contracts/errors.js";
import type { ApiRow, KeyDigests, KeyRecord, KeyRow, ListQuery } from "../../../contracts/store.js";
import type { MaybePromise } from "../../../contracts/types.js";
import { decodeFullKey, decodeIdentity, decodeKey, type FullKeyRaw, type KeyRaw } from "../../codec/key-codec.js";
import { idsByDigests } from "../../codec/ids-by-digests.js";
import { findEach } from "../../find-each.js";
import { type Granted, type GrantedNames, toRecordWith } from "../../key-record.js";
import { type Handle, type Select, select, type SqliteValue } from "../connection/handle.js";
import type { ReferenceCache } from "../tables/reference-cache.js";
import { LAST_USED } from "./key-uses.js";
import { createKeyedHash } from "./keyed-hash.js";

/** Columns of {@link KeyRaw}. */
const KEY_COLUMNS =
  "k.number AS n, k.id, k.api, k.body, k.grants, k.account, i.id AS identityId, i.name AS externalId, i.body AS identityBody, -i.number AS identityAccount";
const FROM = "FROM keystile_keys k LEFT JOIN keystile_identities i ON i.number = k.identity";
const FULL_COLUMNS = `${KEY_COLUMNS}, k.version, k.digest, k.foreign_digest AS foreignDigest, ${LAST_USED}`;
/** A key `k` with its identity `i`. */
export const FULL = `SELECT ${FULL_COLUMNS} ${FROM}`;
// One statement, so one snapshot: entries move between the two tables behind the view.
const AT = `FROM keystile_key_lookup p JOIN keystile_keys k ON k.number = p.key_number LEFT JOIN keystile_identities i ON i.number = k.identity WHERE p.hash = ?`;
const FIND = `SELECT ${KEY_COLUMNS} ${AT} AND k.digest = ?`;
const FIND_MANY = `SELECT ${KEY_COLUMNS}, k.digest FROM json_each(?) j
  CROSS JOIN keystile_keys k ON k.number IN (SELECT key_number FROM keystile_key_lookup WHERE hash = j.value)
  LEFT JOIN keystile_identities i ON i.number = k.identity`;
const FIND_FOREIGN = `SELECT ${FULL_COLUMNS} ${AT} AND k.foreign_digest = ?`;

/** @param openGrants of an owner */
export function createKeyReader(
  handle: Handle,
  references: ReferenceCache,
  openGrants: (workspaceId: string, ownerId: string) => readonly Granted[],
) {
  const byDigest = select<KeyRaw>(handle, FIND);
  const byForeign = select<FullKeyRaw>(handle, FIND_FOREIGN);
  const byDigests = select<KeyRaw & { readonly digest: string | null }>(handle, FIND_MANY);
  const byIds = select<FullKeyRaw>(
    handle,
    `SELECT ${FULL_COLUMNS} FROM json_each(?) j CROSS JOIN keystile_keys k ON k.id = j.value
     LEFT JOIN keystile_identities i ON i.number = k.identity`,
  );
  const holders = select<KeyDigests & { readonly id: string }>(
    handle,
    `SELECT k.id, k.digest, k.foreign_digest AS foreignDigest FROM json_each(?) j
     CROSS JOIN keystile_key_lookup p ON p.hash = j.value CROSS JOIN keystile_keys k ON k.number = p.key_number`,
  );
  const lists = new Map<string, Select<FullKeyRaw>>();
  const hash = createKeyedHash(handle);

  const toRow = (raw: FullKeyRaw): KeyRow => decodeFullKey(raw, apiOf(raw));
  const apiOf = (raw: KeyRaw): ApiRow => {
    const api = references.api(Number(raw.api));
    // Foreign keys are enforced, so only a damaged file gets here.
    if (api === undefined)
      throw new KeystileError(
        "STORE_INVALID",
        "the file has a key of an API that is not there; restore it from a backup",
      );
    return api;
  };
  const recordOf = (raw: KeyRaw, row: KeyRow, api: ApiRow): MaybePromise<KeyRecord | undefined> => {
    if (row.deleted || api.deleted) return undefined;
    const related = {
      api,
      workspaceEnabled: references.workspaceEnabled(api.workspaceId),
      identity: decodeIdentity(raw, api),
      accountRef: Number(raw.account ?? raw.n),
      // The number of an identity's account is that of the identity, below 0.
      identityRef: Number(raw.identityAccount),
      creditGrants: (ownerId: string) => openGrants(api.workspaceId, ownerId),
    };
    const toRecord = (names: GrantedNames) => toRecordWith(Number(raw.n), row, related, () => names);
    const grants = references.grants(raw.grants);
    return grants instanceof Promise ? grants.then(toRecord) : toRecord(grants);
  };
  const found = (raw: KeyRaw, digest: string): MaybePromise<KeyRecord | undefined> => {
    const api = apiOf(raw);
    return recordOf(raw, decodeKey(raw, api, 0, digest), api);
  };
  return {
    findKey(digest: string): MaybePromise<KeyRecord | undefined> {
      const raw = byDigest.get(hash(digest), digest);
      return raw && found(raw, digest);
    },
    findKeys(digests: readonly string[]): MaybePromise<(KeyRecord | undefined)[]> {
      // A hash may have keys of other digests too: they are not asked for here.
      const byText = new Map(byDigests.all(JSON.stringify(digests.map(hash))).map((raw) => [raw.digest, raw]));
      return findEach((digest) => {
        const raw = byText.get(digest);
        return raw && found(raw, digest);
      })(digests);
    },
    findForeignKey(migrationId: string, foreignDigest: string): MaybePromise<KeyRecord | undefined> {
      const raw = byForeign.get(hash(foreignDigest), foreignDigest);
      if (raw === undefined) return undefined;
      const api = apiOf(raw);
      const row = decodeFullKey(raw, api);
      return row.migrationId === migrationId ? recordOf(raw, row, api) : undefined;
    },
    readMany(ids: readonly string[]): (KeyRow | undefined)[] {
      const byText = new Map(byIds.all(JSON.stringify(ids)).map((raw) => [raw.id, raw]));
      return ids.map((id) => {
        const raw = byText.get(id);
        return raw && toRow(raw);
      });
    },
    /** Of a row with the columns of {@link FULL}. */
    toRow,
    findKeyIds(wanted: readonly KeyDigests[]): (string | undefined)[] {
      const texts = wanted.flatMap(({ digest, foreignDigest }) => [digest ?? [], foreignDigest ?? []].flat());
      const found = holders.all(JSON.stringify([...new Set(texts)].map(hash)));
      return idsByDigests(found, wanted);
    },
    list(query: ListQuery): KeyRow[] {
      const { sql, parameters } = listOf(query);
      const statement = lists.get(sql) ?? select<FullKeyRaw>(handle, sql);
      lists.set(sql, statement);
      return statement.all(...parameters).map(toRow);
    },
  };
}

export type KeyReader = ReturnType<typeof createKeyReader>;

/**
 * Keys of an identity are found in the hash index and then sorted; keys of an API are indexed in id order. The unary
 * plus keeps SQLite from using another index.
 */
function listOf({ workspaceId, apiId, identityId, after = "", limit }: ListQuery): {
  sql: string;
  parameters: SqliteValue[];
} {
  const conditions = ["k.id > ?", "k.deleted = 0"];
  const parameters: SqliteValue[] = [after];
  if (identityId !== undefined) {
    const identity = "(SELECT number FROM keystile_identities WHERE id = ?)";
    conditions.push(
      `k.number IN (SELECT key_number FROM keystile_key_lookup WHERE hash = -${identity}) AND k.identity = ${identity}`,
    );
    parameters.push(identityId, identityId);
  }
  if (apiId === undefined) {
    conditions.push("+k.api IN (SELECT number FROM keystile_apis WHERE workspace_id = ?)");
    parameters.push(workspaceId);
  } else {
    const api = identityId === undefined ? "k.api" : "+k.api";
    conditions.push(`${api} = (SELECT number FROM keystile_apis WHERE id = ? AND workspace_id = ?)`);
    parameters.push(apiId, workspaceId);
  }
  parameters.push(limit);
  return { sql: `${FULL} WHERE ${conditions.join(" AND ")} ORDER BY k.id LIMIT ?`, parameters };
}
