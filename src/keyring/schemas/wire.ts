/**
 * Requests that are narrower over HTTP than in the library: those of the specification, and the same with any external
 * id, which an option of the service allows.
 */
import { changedKey, newApi, newIdentity, newKey } from "./keys.js";
import { anyExternalId, body, externalId } from "./primitives.js";
import type * as R from "./requests.js";

export const createApi = body<R.V2ApisCreateApiRequestBody>()(newApi);

export const createKey = body<R.V2KeysCreateKeyRequestBody>()(newKey(externalId));
export const createKeyOfAny = body<R.V2KeysCreateKeyRequestBody>()(newKey(anyExternalId));

export const updateKey = changedKey(externalId);
export const updateKeyOfAny = changedKey(anyExternalId);

export const createIdentity = newIdentity(externalId);
export const createIdentityOfAny = newIdentity(anyExternalId);
