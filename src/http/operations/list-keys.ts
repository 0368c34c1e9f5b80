/** The list of keys, under its two names: `apis.listKeys` and `keys.listKeys` (spec §4.3). */
import * as schemas from "../../keyring/schemas/keys.js";
import { onApi } from "./access.js";
import { define, type Operation } from "./operation.js";
import * as answer from "./responses.js";
import { toWireKey } from "./wire-key.js";

/** Requires `read_key`: `read_api` alone shows no keys. */
export function listKeys(name: string): Operation {
  return define({
    name,
    summary: "Lists the keys of an API, by id.",
    schema: schemas.listKeys,
    answer: answer.key,
    isList: true,
    access: onApi("read_key"),
    act: async ({ keyring }, request) => {
      const { data, pagination } = await keyring.listKeys(request);
      return { data: data.map(toWireKey), pagination };
    },
  });
}
