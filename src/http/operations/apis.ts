/** Operations `apis.*`. `updateApi` is an addition of keystile. */
import * as schemas from "../../keyring/schemas/keys.js";
import * as wire from "../../keyring/schemas/wire.js";
import { onAll, onApi } from "./access.js";
import { listKeys } from "./list-keys.js";
import { define } from "./operation.js";
import * as answer from "./responses.js";

/** APIs and their keys. */
export const apis = [
  define({
    name: "apis.createApi",
    summary: "Makes an API: a place for keys.",
    schema: wire.createApi,
    answer: answer.createdApi,
    access: onAll("create_api", "api"),
    statuses: [],
    act: ({ keyring }, request) => keyring.createApi(request),
  }),
  define({
    name: "apis.getApi",
    summary: "Shows an API.",
    schema: schemas.getApi,
    answer: answer.api,
    access: onApi("read_api"),
    act: ({ keyring }, request) => keyring.getApi(request),
  }),
  define({
    name: "apis.updateApi",
    summary: "Changes an API's name, whether it is enabled, and from where its keys may be used.",
    schema: schemas.updateApi,
    answer: answer.empty,
    access: onApi("update_api"),
    act: ({ keyring }, request) => keyring.updateApi(request),
  }),
  define({
    name: "apis.deleteApi",
    summary: "Deletes an API; its keys are not found from then on.",
    schema: schemas.getApi,
    answer: answer.empty,
    access: onApi("delete_api"),
    act: ({ keyring }, request) => keyring.deleteApi(request),
  }),
  listKeys("apis.listKeys"),
];
