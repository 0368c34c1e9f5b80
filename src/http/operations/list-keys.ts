/**
 * The list of keys, under its two names, `apis.listKeys` and `keys.listKeys` (contract 4.3); and the wide one, an
 * addition of keystile.
 */
import type * as R from "../../keyring/schemas/requests.js";
import type * as A from "../../keyring/schemas/responses.js";
import { type Access, both, onAny, onApi, onKey, requireAnyGrant } from "./access.js";
import type { Definition } from "./operation.js";
import { integer, object, text, time } from "./responses.js";
import { key, toWireKey, wholeKey } from "./wire-key.js";

/** Requires `read_key` and `read_api`. */
export const keysOfApi: Definition<R.V2KeysListKeysRequestBody, A.Page<A.KeyResponseData>> = {
  summary: "Lists the keys of an API, by id.",
  answer: key,
  isList: true,
  access: both(onApi("read_key"), onApi("read_api"), [{ permission: "api.*.read_api" }]),
  show: ({ data, pagination }) => ({ data: data.map(toWireKey), pagination }),
};

type Named = { readonly apiId?: string };
const onApis = both(onAny("read_key", "api", "api_id"), onAny("read_api", "api", "api_id"), [
  { permission: "api.*.read_api" },
]);
const onOneApi = both(onApi("read_key"), onApi("read_api"), []);
/** Requires `read_key` and `read_api` on the API that is named; otherwise on any, and shows the others of nothing. */
const onNamedOrAny: Access<Named> = {
  ...onApis,
  allow: (context, caller, { apiId }) =>
    apiId === undefined ? onApis.allow(context, caller, {}) : onOneApi.allow(context, caller, { apiId }),
};

export const foundKeys: Definition<R.SearchKeysRequestBody, A.SearchPage<A.KeyResponseData>> = {
  summary: "Finds keys of all APIs that the caller may read: by text, state, expiry and credits, in an order.",
  answer: wholeKey,
  isList: true,
  access: onNamedOrAny,
};

const withReading = "the keys are selected by a filter";
export const keysChanged: Definition<R.ChangeKeysRequestBody, A.SearchPage<A.KeyChange>> = {
  summary: "Disables, enables or deletes many keys, by their ids or by a filter, up to 100 in one step.",
  answer: object<A.KeyChange>({ keyId: text, outcome: text }),
  isList: true,
  access: {
    ...onKey("update_key"),
    also: [
      { permission: "api.*.delete_key", where: "`action` is `delete`" },
      ...["api.*.read_key", "api.*.read_api"].map((permission) => ({ permission, where: withReading })),
    ],
    async allow(context, caller, { keyIds, action, ...filter }) {
      if (action === "delete") requireAnyGrant(onKey("delete_key"), caller);
      if (keyIds !== undefined) return;
      requireAnyGrant(onNamedOrAny, caller);
      await onNamedOrAny.allow(context, caller, filter);
    },
  },
};

export const countedKeys: Definition<R.CountKeysRequestBody, A.CountKeysResponseData> = {
  summary: "Counts the keys of an API, or of all that the caller may read.",
  answer: object<A.CountKeysResponseData>({
    total: integer(0),
    disabled: integer(0),
    expired: integer(0),
    asOf: time,
  }),
  access: onNamedOrAny,
};
