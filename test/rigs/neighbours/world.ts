/** What the service of the rig serves: a workspace that attacks, and one that behaves. */
import { createKeyring } from "../../../src/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { EVERYTHING } from "../../http/support.js";

/** Ids and keys, for the attacker and the neighbour. */
export interface World {
  /**
   * Of the workspace that attacks: root keys with every right and with none, a key that is valid, and what it may name.
   */
  readonly allRights: string;
  readonly noRights: string;
  readonly key: string;
  readonly apiId: string;
  readonly migrationId: string;
  /** An API whose keys fill pages of 4 MiB. */
  readonly longApiId: string;
  /** Of the workspace that behaves. */
  readonly good: { readonly rootKey: string; readonly key: string; readonly keyId: string };
}

/** Keys of the API with long pages, and bytes of the metadata of each. */
const LONG_KEYS = 72;
const META_BYTES = 60_000;
const PERMISSIONS = 240;
const ROLES = 20;

/** Creates both workspaces in a new file. */
export async function createWorld(file: string): Promise<World> {
  const store = sqliteStore(file, { durability: "process" });
  try {
    const evil = createKeyring(store, { workspaceId: "evil" });
    const slugs = Array.from({ length: PERMISSIONS }, (_, i) => String(i).padStart(128, "s"));
    for (const slug of slugs)
      await evil.createPermission({ name: "𝔘".repeat(512), slug, description: "𝔘".repeat(512) });
    for (let i = 0; i < ROLES; i++) await evil.createRole({ name: `role${i}`, permissions: slugs });
    const { apiId } = await evil.createApi({ name: "attack" });
    const { apiId: longApiId } = await evil.createApi({ name: "pages" });
    for (let i = 0; i < LONG_KEYS; i++)
      await evil.createKey({ apiId: longApiId, meta: { text: "x".repeat(META_BYTES) } });
    const good = createKeyring(store, { workspaceId: "good" });
    const { key, keyId } = await good.createKey({ apiId: (await good.createApi({ name: "service" })).apiId });
    return {
      allRights: (await evil.createRootKey({ permissions: EVERYTHING })).key,
      noRights: (await evil.createRootKey({ permissions: ["api.other_api.nothing"] })).key,
      key: (await evil.createKey({ apiId })).key,
      apiId,
      migrationId: (await evil.createMigration({ algorithm: "sha256" })).migrationId,
      longApiId,
      good: { rootKey: (await good.createRootKey({ permissions: EVERYTHING })).key, key, keyId },
    };
  } finally {
    await store.close();
  }
}

/** Permissions that the workspace that attacks has more than it had at first. */
export async function permissionsLeft(file: string): Promise<number> {
  const store = sqliteStore(file, { durability: "process" });
  try {
    const evil = createKeyring(store, { workspaceId: "evil" });
    let left = -PERMISSIONS;
    for (let cursor: string | undefined, hasMore = true; hasMore;) {
      const page = await evil.listPermissions({ cursor });
      left += page.data.length;
      ({ cursor, hasMore } = { cursor: undefined, ...page.pagination });
    }
    return left;
  } finally {
    await store.close();
  }
}
