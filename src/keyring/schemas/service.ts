/**
 * The requests of root keys, namespaces and rate limits. Spec §5, §8, operations `ratelimit.*`; `service-requests.ts`
 * has their types.
 */
import * as v from "valibot";
import { explainGrant } from "../../access/grants.js";
import { page, search } from "./keys.js";
import { withFix, type Schema } from "./parse.js";
import * as atom from "./primitives.js";
import type { ListRequestBody } from "./requests.js";
import type * as R from "./service-requests.js";

const { body, list, text, integer, optionalOr } = atom;
const optional = v.exactOptional;

const MAX_GRANTS = 1_000;
/** The longest window (spec §8). */
const MAX_DURATION = 2_592_000_000;

/** Permissions that can grant something to a root key of this workspace. */
function grants(workspaceId: string, scheme: string) {
  const explain = (value: unknown) => explainGrant(value as string, workspaceId, scheme);
  const grant = v.pipe(
    text(1, 1_024),
    v.rawCheck(({ dataset, addIssue }) => {
      const fault = dataset.typed ? explain(dataset.value) : undefined;
      if (fault !== undefined) addIssue({ message: withFix(fault.message, fault.fix) });
    }),
  );
  return list(grant, 0, MAX_GRANTS);
}

/** Validated by workspace: a permission for another one would grant nothing. */
export function createRootKey(workspaceId: string, scheme: string) {
  return body<R.CreateRootKeyRequestBody>()({
    name: optional(atom.name),
    permissions: grants(workspaceId, scheme),
    expires: optional(atom.time),
    enabled: optionalOr(atom.boolean, true),
  });
}
export function updateRootKey(workspaceId: string, scheme: string) {
  return body<R.UpdateRootKeyRequestBody>()({
    rootKeyId: atom.id,
    name: optional(v.nullable(atom.name)),
    permissions: optional(grants(workspaceId, scheme)),
    expires: optional(v.nullable(atom.time)),
    enabled: optional(atom.boolean),
  });
}
export const deleteRootKey = body<R.DeleteRootKeyRequestBody>()({ rootKeyId: atom.id });
export const listRootKeys = body<ListRequestBody>()(page("rootKeys"));

/** Names a namespace that may be new: an operation that finds none of this name creates it. */
const newNamespace = atom.label(1, 512);
/** Finds one by its id or name. */
const namespace = text(1, 512);
const identifier = text(1, 512);
const check = {
  namespace: newNamespace,
  cost: optionalOr(integer(0), 1),
  duration: integer(1_000, MAX_DURATION),
  identifier,
  limit: integer(1),
};

export const createNamespace = body<R.CreateNamespaceRequestBody>()({ name: newNamespace });
export const getNamespace = body<R.GetNamespaceRequestBody>()({ namespace });
export const listNamespaces = search("namespaces");
export const limit = body<R.V2RatelimitLimitRequestBody>()(check);
export const multiLimit: Schema<R.V2RatelimitMultiLimitRequestBody> = list(limit, 1, 100);
export const setOverride = body<R.V2RatelimitSetOverrideRequestBody>()({
  namespace: newNamespace,
  duration: integer(1_000),
  identifier,
  limit: integer(0),
});
export const getOverride = body<R.V2RatelimitGetOverrideRequestBody>()({ namespace, identifier });
export const listOverrides = body<R.V2RatelimitListOverridesRequestBody>()({ namespace, ...page("overrides", 10) });
