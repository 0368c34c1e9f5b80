/** Reads keys. Finds of one turn are one statement, of one row each; what they refer to is at hand. */
import { isKeystileError, KeystileError } from "../../contracts/errors.js";
import type { KeyDigests, KeyRecord, KeyRow, ListQuery, NewKey, OwnedWallet } from "../../contracts/store.js";
import { ownProperty } from "../../lib/check-options.js";
import { encodeKey } from "../codec/encoded-keys.js";
import { idsByDigests } from "../codec/ids-by-digests.js";
import { decodeFullKey, decodeIdentity, type FullKeyRaw } from "../codec/key-codec.js";
import { type Granted, identityWallet, ownersWithGrants, toRecordWith } from "../key-record.js";
import type { Session, Statement } from "./client.js";
import { decodeEntity } from "../codec/entity-codec.js";
import { ENTITY_COLUMNS, inOrder, toEntityRaw } from "./entities.js";
import { createGroups } from "./groups.js";
import type { Loaded, References } from "./references.js";
import { assertStorable, forPeople, isStorable } from "./texts.js";

/** Most finds in one statement. */
const MAX_FINDS = 256;
/** What a row that cannot be read fails with, here or on the server. */
const OF_ONE_ROW: ReadonlySet<string> = new Set(["STORE_INVALID", "STORE_FAILED"]);

/** Most characters of a key's grants, and of its roles among them, with which it is found together with others. */
const MAX_GRANTS = 40_000;
const MAX_ROLES = 256;
const isShort = ({ grants }: KeyText): boolean =>
  grants.length <= MAX_GRANTS && grants.length - grants.lastIndexOf("[") <= MAX_ROLES;

/** Columns of {@link KeyText}, of a key `k` and its identity `i`. */
export const KEY_COLUMNS = `k.number::text AS n, k.id, k.workspace_id AS "workspaceId", k.api_id AS api, k.version::text AS version, k.digest,
  k.foreign_digest AS "foreignDigest", k.grants, k.body, k.account::text AS account, k.last_used_at::text AS "lastUsedAt",
  i.id AS "identityId", i.name AS "externalId", i.body AS "identityBody", i.account::text AS "identityAccount"`;

/** A key as it is selected. */
export type KeyText = FullKeyRaw & { readonly workspaceId: string; readonly api: string; readonly n: string };

/** Reads open grants, by their owner. */
function createGrantReads(session: Session, schema: string) {
  const grants: Statement = {
    isRead: true,
    text: `SELECT ${ENTITY_COLUMNS}, e.parent, e.account::text AS account FROM ${schema}.entities e
      WHERE e.kind = 'grants' AND e.parent IN (SELECT pg_catalog.jsonb_array_elements_text($1::text::jsonb))`,
  };
  return async (owners: readonly string[]): Promise<ReadonlyMap<string, Granted[]>> => {
    const found = new Map<string, Granted[]>();
    if (owners.length === 0) return found;
    const texts = await session.run(grants, JSON.stringify([...new Set(owners)]));
    for (const text of texts) {
      const owner = text["parent"] as string;
      const one = { ref: Number(text["account"]), row: decodeEntity("grants", toEntityRaw(text)) };
      found.set(owner, [...(found.get(owner) ?? []), one]);
    }
    return found;
  };
}

export function createKeys(session: Session, references: References, schema: string) {
  const read = (rest: string): Statement => ({
    isRead: true,
    text: `SELECT ${KEY_COLUMNS} FROM ${schema}.keys k
      LEFT JOIN ${schema}.entities i ON i.kind = 'identities' AND i.id = k.identity_id ${rest}`,
  });
  const among = (column: string) =>
    read(`WHERE ${column} IN (SELECT pg_catalog.jsonb_array_elements_text($1::text::jsonb))`);
  const byDigest = read("WHERE k.digest = $1");
  const byDigests = among("k.digest");
  const byForeign = read("WHERE k.foreign_digest = $1");
  const byIds = among("k.id");
  const holders: Statement = {
    isRead: true,
    text: ["digest", "foreign_digest"]
      .map((column, i) => {
        const texts = `pg_catalog.jsonb_array_elements_text($${i + 1}::text::jsonb)`;
        return `SELECT id, digest, foreign_digest AS "foreignDigest" FROM ${schema}.keys WHERE ${column} IN (SELECT ${texts})`;
      })
      .join(" UNION ALL "),
  };
  const listing = (of: string) =>
    read(`WHERE ${of}k.workspace_id = $1 AND k.id > $2 AND NOT k.deleted ORDER BY k.id LIMIT $3::text::bigint`);
  const grantsOf = createGrantReads(session, schema);
  const identityById: Statement = {
    isRead: true,
    text: `SELECT ${ENTITY_COLUMNS}, e.account::text AS account FROM ${schema}.entities e
      WHERE e.kind = 'identities' AND e.id = $1`,
  };

  const referencesOf = ({ workspaceId, api, grants }: KeyText) => ({ workspaceId, apiId: api, grants });
  const toRow = (text: KeyText, loaded: Loaded): KeyRow => decodeFullKey(text, apiOf(text, loaded));
  const records = async (texts: readonly KeyText[]): Promise<{ row: KeyRow; record: KeyRecord | undefined }[]> => {
    if (texts.length === 0) return [];
    const loaded = await references.load(texts.map(referencesOf));
    const rows = texts.map((text) => {
      const api = apiOf(text, loaded);
      return { text, api, row: toRow(text, loaded), identity: decodeIdentity(text, api) };
    });
    const granted = await grantsOf(rows.flatMap(({ row, identity }) => ownersWithGrants(row, identity)));
    return rows.map(({ text, api, row, identity }) => {
      const related = {
        api,
        workspaceEnabled: loaded.workspaceEnabled(api.workspaceId),
        identity,
        accountRef: Number(text.account ?? text.n),
        creditGrants: (ownerId: string) => granted.get(ownerId) ?? [],
        identityRef: text.identityAccount === null ? undefined : Number(text.identityAccount),
      };
      const grants = loaded.grants(text.grants);
      const record = toRecordWith(Number(text.n), row, related, () => grants);
      return { row, record: record && { ...record, grantIds: grants.ids } };
    });
  };
  const rowsOf = async (texts: readonly KeyText[]): Promise<KeyRow[]> => {
    if (texts.length === 0) return [];
    // Grants are ids here: only the API is used.
    const loaded = await references.load(texts.map((text) => ({ ...referencesOf(text), grants: "" })));
    return texts.map((text) => toRow(text, loaded));
  };
  const readTexts = async (digests: readonly string[]): Promise<ReadonlyMap<string | null, KeyText>> => {
    const asked = [...new Set(digests)].filter(isStorable);
    if (asked.length === 0) return new Map();
    const texts = await (asked.length === 1
      ? session.run(byDigest, asked[0] as string)
      : session.run(byDigests, JSON.stringify(asked)));
    return new Map((texts as readonly object[] as KeyText[]).map((text) => [text.digest, text]));
  };
  /**
   * Finds, each by itself from the moment that their rows are read: one that cannot be read, or that is granted very
   * much, fails or delays no other.
   */
  const findEach = async (digests: readonly string[]): Promise<(() => Promise<KeyRecord | undefined>)[]> => {
    const texts = await readTexts(digests);
    const together = records([...texts.values()].filter(isShort)).then(
      (found) => new Map(found.map(({ row, record }) => [row.digest, record])),
    );
    // Whoever asks for one of them is told.
    together.catch(() => undefined);
    return digests.map((digest) => async () => {
      const text = texts.get(digest);
      if (text === undefined) return undefined;
      try {
        if (isShort(text)) return (await together).get(digest);
      } catch (error) {
        if (texts.size === 1 || (isKeystileError(error) && !OF_ONE_ROW.has(error.code))) throw error;
      }
      return (await records([text]))[0]?.record;
    });
  };
  const findTogether = createGroups(findEach, { maxSize: MAX_FINDS });
  return {
    rowsOf,
    finding: {
      findKey: async (digest: string): Promise<KeyRecord | undefined> => (await findTogether(digest))(),
      findKeys: async (digests: readonly string[]): Promise<(KeyRecord | undefined)[]> =>
        Promise.all((await findEach(digests)).map((find) => find())),
      async findForeignKey(migrationId: string, foreignDigest: string): Promise<KeyRecord | undefined> {
        if (!isStorable(foreignDigest)) return undefined;
        const [found] = await records((await session.run(byForeign, foreignDigest)) as readonly object[] as KeyText[]);
        return found?.row.migrationId === migrationId ? found.record : undefined;
      },
      async findWallet(id: string): Promise<OwnedWallet | undefined> {
        const [text] = isStorable(id) ? await session.run(identityById, id) : [];
        if (text === undefined) return undefined;
        const row = decodeEntity("identities", toEntityRaw(text));
        const granted = await grantsOf(row.hasGrants === true ? [id] : []);
        return identityWallet(row, Number(text["account"]), (owner) => granted.get(owner) ?? []);
      },
      async findKeyIds(wanted: readonly KeyDigests[]): Promise<(string | undefined)[]> {
        const textsOf = (name: keyof KeyDigests) =>
          JSON.stringify(wanted.flatMap(({ [name]: text }) => (text !== undefined && isStorable(text) ? [text] : [])));
        const found = await session.run(holders, textsOf("digest"), textsOf("foreignDigest"));
        return idsByDigests(found as readonly object[] as Parameters<typeof idsByDigests>[0], wanted);
      },
    },
    readMany: (ids: readonly string[]) =>
      inOrder(ids, async (asked) => rowsOf((await session.run(byIds, asked)) as readonly object[] as KeyText[])),
    async list({ workspaceId, apiId, identityId, after = "", limit }: ListQuery): Promise<KeyRow[]> {
      if (![workspaceId, apiId ?? "", identityId ?? "", after].every(isStorable)) return [];
      const owners = Object.entries({ api_id: apiId, identity_id: identityId }).filter(([, id]) => id !== undefined);
      const statement = listing(owners.map(([column], i) => `k.${column} = $${i + 4} AND `).join(""));
      const texts = session.run(statement, workspaceId, after, String(limit), ...owners.map(([, id]) => id as string));
      return rowsOf((await texts) as readonly object[] as KeyText[]);
    },
  };
}

function apiOf({ api }: KeyText, loaded: Loaded) {
  const found = loaded.api(api);
  // A write holds the API of its key, so only a row that something else removed gets here.
  if (found === undefined) throw new KeystileError("STORE_INVALID", "the store has a key of an API that is not there");
  return found;
}

/** A key as the database reads it. @throws RangeError: a text cannot be stored */
export function encodeKeyRow({ row, balance }: NewKey): Record<string, unknown> {
  const { id, workspaceId, apiId, digest, foreignDigest, name, start, enabled, expires, createdAt, generation } = row;
  const { identityId, version, deleted, grants, body } = encodeKey(row, balance);
  for (const text of [id, workspaceId, apiId, digest ?? "", foreignDigest ?? "", identityId ?? ""])
    assertStorable(text, "the id, a digest or a reference of a key");
  return {
    id,
    ws: workspaceId,
    api: apiId,
    identity: identityId,
    version,
    digest: digest ?? null,
    foreign: foreignDigest ?? null,
    draws: !row.hasCredits && ownProperty(row, "creditsFrom") !== "none",
    deleted,
    grants,
    body,
    name: name === undefined ? null : forPeople(name),
    start: forPeople(start),
    enabled,
    expires: expires === undefined ? null : toTimestamp(expires),
    created: toTimestamp(createdAt),
    account: ownProperty(row, "accountId") ?? null,
    from: ownProperty(row, "rerolledFrom") ?? null,
    ...(balance !== undefined && { ...balance, generation }),
  };
}

/**
 * Milliseconds within the range of timestamptz, which begins in the year 4714 BC; dates of JavaScript go further back.
 */
function toTimestamp(ms: number): number {
  return Math.max(-210_866_803_200_000, ms);
}
