/** Operations `apis.*`. `updateApi` and `listApis` are additions of keystile. */
import * as apis from "../../keyring/apis.js";
import { listKeys } from "../../keyring/keys/read-keys.js";
import type { V2ApisCreateApiResponseData, V2ApisGetApiResponseData } from "../../keyring/schemas/responses.js";
import { onAll, onAny, onApi } from "./access.js";
import { keysOfApi } from "./list-keys.js";
import { bySchema, group } from "./operation.js";
import { flag, longId, object, text, texts } from "./responses.js";

const define = group("apis", ({ keyring }) => keyring);

const api = object<V2ApisGetApiResponseData>({
  id: longId,
  name: { ...text, minLength: 3, maxLength: 256 },
  enabled: flag,
  ipAllowlist: texts,
});

/** APIs and their keys. */
export const apiOperations = [
  define(apis.createApi, {
    reading: bySchema(apis.newApi),
    summary: "Makes an API: a place for keys.",
    answer: object<V2ApisCreateApiResponseData>({ apiId: longId }),
    access: onAll("create_api", "api"),
    statuses: [],
  }),
  define(apis.getApi, { summary: "Shows an API.", answer: api, access: onApi("read_api") }),
  define(apis.listApis, {
    summary: "Lists the APIs that the caller may read, by id.",
    answer: api,
    isList: true,
    access: onAny("read_api", "api", "api_id"),
    statuses: [],
  }),
  define(apis.updateApi, {
    summary: "Changes an API's name, whether it is enabled, and from where its keys may be used.",
    access: onApi("update_api"),
  }),
  define(apis.deleteApi, {
    summary: "Deletes an API; its keys are not found from then on.",
    access: onApi("delete_api"),
  }),
  define(listKeys, keysOfApi),
];
