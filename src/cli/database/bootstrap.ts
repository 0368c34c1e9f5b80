/** What a file needs before the service is of use: an API, and a root key. Knows no server. */
import type { Store } from "../../contracts/store.js";
import { createKeyring } from "../../keyring/keyring.js";
import { DEFAULT_WORKSPACE } from "../../lib/check-options.js";
import { allPermissions } from "./database.js";

export interface FirstStart {
  readonly apiId: string;
  /** To be shown once: only its digest is kept. */
  readonly rootKey: string;
}

/**
 * Makes both in a file that holds neither. What holds something is left as it is: root keys that were all revoked do not come back.
 * @returns what was made; or that there was something already, perhaps without any root key
 */
export async function makeFirst(store: Store): Promise<FirstStart | "made before" | "without root key"> {
  const holds = async (table: "apis" | "rootKeys"): Promise<boolean> =>
    (await store.list(table, { workspaceId: DEFAULT_WORKSPACE, limit: 1 })).length > 0;
  if (await holds("rootKeys")) return "made before";
  if (await holds("apis")) return "without root key";
  const keyring = createKeyring(store, { workspaceId: DEFAULT_WORKSPACE });
  const { apiId } = await keyring.createApi({ name: "first API" });
  const { key } = await keyring.createRootKey({ name: "first root key", permissions: allPermissions() });
  return { apiId, rootKey: key };
}
