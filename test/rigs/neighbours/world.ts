/** What the service of the rig serves: two workspaces that attack, and one that behaves. */
import { LEVELS, OTHER } from "../../../src/contracts/outcomes.js";
import { createKeyring, type Store } from "../../../src/index.js";
import { EVERYTHING } from "../../http/support.js";

/** A root key with every right, and a key that is valid. */
interface Keys {
  readonly rootKey: string;
  readonly key: string;
}

/** Ids and keys, for the attackers and the neighbour. */
export interface World {
  /**
   * Of the workspace that attacks: root keys with every right and with none, a key that is valid, and what it may name.
   */
  readonly allRights: string;
  readonly noRights: string;
  readonly key: string;
  readonly keyId: string;
  readonly name: string;
  readonly apiId: string;
  readonly migrationId: string;
  /** An API whose keys fill pages of 4 MiB. */
  readonly longApiId: string;
  /** Of the other one that attacks. Its key has roles, each with {@link wildcardsOf} of its name. */
  readonly other: Keys;
  readonly roles: readonly string[];
  /** Of the workspace that behaves. */
  readonly good: Keys & { readonly keyId: string };
  /** As it was made. */
  readonly before: Left;
}

/** What is there after an attack. */
export interface Left {
  /** Permissions of the workspace that attacks. */
  readonly permissions: number;
  /** Entries of the audit trail, of the workspace that attacks and of the one that behaves. */
  readonly entries: number;
  readonly goodEntries: number;
  /** Verifications of the workspace that behaves, counted under their key and tags. */
  readonly counted: number;
}

/** Keys of the API with long pages, and bytes of the metadata of each. */
const LONG_KEYS = 72;
const META_BYTES = 60_000;
const PERMISSIONS = 240;
const ROLES = 20;
const WILDCARDS = 1_000;

/** As many permissions as a role may have. @param last of them, in place of the usual one */
export const wildcardsOf = (role: string, last = `last`): readonly string[] =>
  Array.from({ length: WILDCARDS }, (_, i) => `${role}.${i < WILDCARDS - 1 ? i : last}.*`);

/** Makes the workspaces in an empty store. @param roles of the key with many permissions */
export async function createWorld(store: Store, roles: number): Promise<World> {
  const evil = createKeyring(store, { workspaceId: "evil" });
  const slugs = Array.from({ length: PERMISSIONS }, (_, i) => String(i).padStart(128, "s"));
  for (const slug of slugs) await evil.createPermission({ name: "𝔘".repeat(512), slug, description: "𝔘".repeat(512) });
  for (let i = 0; i < ROLES; i++) await evil.createRole({ name: `role${i}`, permissions: slugs });
  const { apiId } = await evil.createApi({ name: "attack" });
  const { apiId: longApiId } = await evil.createApi({ name: "pages" });
  for (let i = 0; i < LONG_KEYS; i++)
    await evil.createKey({ apiId: longApiId, meta: { text: "x".repeat(META_BYTES) } });
  const other = createKeyring(store, { workspaceId: "other" });
  const names = Array.from({ length: roles }, (_, i) => `role${i}`);
  for (const name of names) await other.createRole({ name, permissions: wildcardsOf(name) });
  const otherApi = await other.createApi({ name: "attack" });
  const good = createKeyring(store, { workspaceId: "good" });
  const { key, keyId } = await good.createKey({ apiId: (await good.createApi({ name: "service" })).apiId });
  const name = "as it is";
  const made = {
    allRights: (await evil.createRootKey({ permissions: EVERYTHING })).key,
    noRights: (await evil.createRootKey({ permissions: ["api.other_api.nothing"] })).key,
    ...(await evil.createKey({ apiId, name })),
    name,
    apiId,
    migrationId: (await evil.createMigration({ algorithm: "sha256" })).migrationId,
    longApiId,
    other: {
      rootKey: (await other.createRootKey({ permissions: EVERYTHING })).key,
      key: (await other.createKey({ ...otherApi, roles: names })).key,
    },
    roles: names,
    good: { rootKey: (await good.createRootKey({ permissions: EVERYTHING })).key, key, keyId },
  };
  return { ...made, before: await readLeft(store, made) };
}

export async function readLeft(store: Store, { good }: Pick<World, "good">): Promise<Left> {
  const evil = createKeyring(store, { workspaceId: "evil" });
  let permissions = 0;
  for (let cursor: string | undefined, hasMore = true; hasMore;) {
    const page = await evil.listPermissions({ cursor });
    permissions += page.data.length;
    ({ cursor, hasMore } = { cursor: undefined, ...page.pagination });
  }
  const entriesOf = async (workspaceId: string): Promise<number> =>
    (await store.readAudit({ workspaceId, among: 1e6, limit: 1e6 })).entries.length;
  const today = Math.floor(Date.now() / LEVELS.day) * LEVELS.day;
  const counts = await store.readOutcomes({
    level: "day",
    workspaceId: "good",
    from: today - LEVELS.day,
    to: today + LEVELS.day,
    by: ["tags"],
    keyIds: [good.keyId],
    maxRows: 1e6,
  });
  return {
    permissions,
    entries: await entriesOf("evil"),
    goodEntries: await entriesOf("good"),
    counted: counts
      .filter(({ tags }) => tags?.includes(OTHER) !== true)
      .reduce((sum, row) => row.counts.reduce((all, count) => all + count, sum), 0),
  };
}
