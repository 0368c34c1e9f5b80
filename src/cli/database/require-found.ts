/** Whether what an answer is empty for is there: nobody's answer is not told from one without numbers otherwise. */
import type { Store } from "../../contracts/store.js";
import { createKeyring } from "../../keyring/keyring.js";
import { EXIT, failure } from "../io/failures.js";

/** A key, an owner or an API, of a workspace. */
export interface Named {
  readonly keyId?: string | undefined;
  readonly externalId?: string | undefined;
  readonly apiId?: string | undefined;
  readonly workspace?: string | undefined;
}

/** @throws KeystileError NOT_FOUND, or a failure that says so: it is not there; deleted keys are */
export async function requireFound(store: Store, { keyId, externalId, apiId, workspace }: Named): Promise<void> {
  const keyring = createKeyring(store, workspace === undefined ? {} : { workspaceId: workspace });
  if (keyId !== undefined) await keyring.getKey({ keyId, includeDeleted: true });
  if (apiId !== undefined) await keyring.getApi({ apiId });
  if (externalId === undefined) return;
  // An id finds an identity too, and is not what its keys are selected by.
  const found = await keyring.getIdentity({ identity: externalId });
  if (found.externalId !== externalId) throw failure(EXIT.no, "The identity was not found: give its external id");
}
