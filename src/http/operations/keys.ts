/** Operations `keys.*` except verification, imports and grants (spec §4.3). */
import * as schemas from "../../keyring/schemas/keys.js";
import * as wire from "../../keyring/schemas/wire.js";
import { onKey, onKeyspace, onReplacedKey, onKeyText } from "./access.js";
import { listKeys } from "./list-keys.js";
import { define } from "./operation.js";
import * as answer from "./responses.js";
import { naming } from "./role-access.js";
import { toWireCredits, toWireKey } from "./wire-key.js";

const GIVEN = ["permissions", "externalId", "roles"] as const;

/** Keys one by one. */
export const keys = [
  define({
    name: "keys.createKey",
    summary: "Makes a key and shows its text this once.",
    schema: wire.createKey,
    wideSchema: wire.createKeyOfAny,
    answer: answer.createdKey,
    access: naming(onKeyspace("create_key"), GIVEN),
    act: ({ keyring }, request) => keyring.createKey(request, { acceptPast: true }),
  }),
  define({
    name: "keys.getKey",
    summary: "Shows a key by its id.",
    schema: schemas.getKey,
    answer: answer.key,
    access: onKey("read_key"),
    act: ({ keyring }, request) => keyring.getKey(request).then(toWireKey),
  }),
  define({
    name: "keys.whoami",
    summary: "Shows a key by its text.",
    schema: schemas.whoami,
    answer: answer.key,
    access: onKeyText("read_key"),
    act: ({ keyring }, request) => keyring.whoami(request).then(toWireKey),
  }),
  listKeys("keys.listKeys"),
  define({
    name: "keys.updateKey",
    summary: "Changes a key: an absent field keeps, null clears, a given list replaces.",
    schema: wire.updateKey,
    wideSchema: wire.updateKeyOfAny,
    answer: answer.empty,
    access: naming(onKey("update_key"), GIVEN),
    act: ({ keyring }, request) => keyring.updateKey(request),
  }),
  define({
    name: "keys.updateCredits",
    summary: "Sets, raises or lowers the credits of a key, and returns the balance.",
    schema: schemas.updateCredits,
    answer: answer.credits,
    access: onKey("update_key"),
    act: ({ keyring }, request) => keyring.updateCredits(request).then(toWireCredits),
  }),
  define({
    name: "keys.deleteKey",
    summary: "Hides a key, or removes it for good.",
    schema: schemas.deleteKey,
    answer: answer.empty,
    access: onKey("delete_key"),
    act: ({ keyring }, request) => keyring.deleteKey(request),
  }),
  define({
    name: "keys.rerollKey",
    summary: "Gives a key a new id and text; the old one expires after a while.",
    schema: schemas.rerollKey,
    answer: answer.createdKey,
    access: onReplacedKey(),
    act: ({ keyring }, request) => keyring.rerollKey(request),
  }),
];
