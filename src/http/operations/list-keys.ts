/** The one list of keys, under the two names that clients know: `apis.listKeys` and `keys.listKeys` (spec §4.3). */
import * as schemas from "../../keyring/schemas/keys.js";
import { onApi } from "./access.js";
import { define, type Operation } from "./operation.js";
import * as answer from "./responses.js";
import { toWireKey } from "./wire-key.js";

/** Who may read an API's keys may list them; `read_api` alone shows no key. */
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
