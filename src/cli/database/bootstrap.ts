/** Creates the first API and root key of a new database file. */
import type { AuditEntry } from "../../contracts/audit.js";
import type { Store, Write } from "../../contracts/store.js";
import { createKeyring } from "../../keyring/keyring.js";
import { DEFAULT_WORKSPACE } from "../../lib/check-options.js";
import { allPermissions, COMMAND_LINE } from "./database.js";

export interface FirstStart {
  readonly apiId: string;
  readonly rootKeyId: string;
  /** To be shown once: only its digest is stored. */
  readonly rootKey: string;
}

/** Puts a root key that is about to be committed where it can be found again; may throw. */
export interface Stage {
  /** Called before anything is made, if something will be. */
  prepare(): void | Promise<void>;
  /** @returns removes it again: it will not be committed */
  write(first: FirstStart): () => void;
}

/**
 * Creates both if the file has neither an API nor a root key. Otherwise changes nothing: revoked root keys do not come
 * back. Of several processes that start at once, one creates both, in one transaction: the others find them.
 * @param stage gets the root key before it is committed, so that a kill leaves none that nobody can see
 * @returns what was created, or whether the file already had a root key
 * @throws what the stage throws; nothing was committed then
 */
export async function makeFirst(store: Store, stage: Stage): Promise<FirstStart | "made before" | "without root key"> {
  const holds = async (table: "apis" | "rootKeys"): Promise<boolean> =>
    (await store.list(table, { workspaceId: DEFAULT_WORKSPACE, limit: 1 })).length > 0;
  for (;;) {
    // Read first: whoever comes between writes it too, and the version does not fit any more.
    const [workspace = { id: DEFAULT_WORKSPACE, version: 0, enabled: true }] = await store.readMany("workspaces", [
      DEFAULT_WORKSPACE,
    ]);
    // Before the root key, with which it is committed: another process may do so in between.
    const hasApi = await holds("apis");
    if (await holds("rootKeys")) return "made before";
    if (hasApi) return "without root key";
    try {
      await stage.prepare();
    } catch (error) {
      // Another process was quicker, and its file is what is in the way.
      if (await holds("rootKeys")) return "made before";
      throw error;
    }
    const writes: Write[] = [{ table: "workspaces", row: workspace }];
    const entries: AuditEntry[] = [];
    const write: Store["write"] = (more, its = []) => {
      writes.push(...more);
      entries.push(...its);
      return "written";
    };
    const keyring = createKeyring({ ...store, write }, { workspaceId: DEFAULT_WORKSPACE, actor: COMMAND_LINE });
    const { apiId } = await keyring.createApi({ name: "first API" });
    const { key, rootKeyId } = await keyring.createRootKey({ name: "first root key", permissions: allPermissions() });
    const first = { apiId, rootKeyId, rootKey: key };
    const discard = stage.write(first);
    if ((await store.write(writes, entries)) === "written") return first;
    discard();
  }
}

/** Removes both, if nobody got to see the key: the next start is the first again. */
export async function unmakeFirst(store: Store, { apiId, rootKeyId }: FirstStart): Promise<void> {
  const keyring = createKeyring(store, { workspaceId: DEFAULT_WORKSPACE, actor: COMMAND_LINE });
  await keyring.deleteRootKey({ rootKeyId });
  await keyring.deleteApi({ apiId });
}
