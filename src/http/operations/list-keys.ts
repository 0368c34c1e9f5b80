/** The list of keys, under its two names: `apis.listKeys` and `keys.listKeys` (spec §4.3). */
import * as schemas from "../../keyring/schemas/keys.js";
import { type Access, onApi, requireAnyGrant } from "./access.js";
import { define, type Operation } from "./operation.js";
import * as answer from "./responses.js";
import { toWireKey } from "./wire-key.js";

const keysOf = onApi("read_key");
const api = onApi("read_api");
const access: Access<{ readonly apiId: string }> = {
  ...keysOf,
  also: [{ permission: "api.*.read_api" }],
  async allow(context, caller, request) {
    await keysOf.allow(context, caller, request);
    requireAnyGrant(api, caller);
    await api.allow(context, caller, request);
  },
};

/** Requires `read_key` and `read_api`. */
export function listKeys(name: string): Operation {
  return define({
    name,
    summary: "Lists the keys of an API, by id.",
    schema: schemas.listKeys,
    answer: answer.key,
    isList: true,
    access,
    act: async ({ keyring }, request) => {
      const { data, pagination } = await keyring.listKeys(request);
      return { data: data.map(toWireKey), pagination };
    },
  });
}
