/** Operations `identities.*`. */
import * as schemas from "../../keyring/schemas/keys.js";
import * as wire from "../../keyring/schemas/wire.js";
import { onAll, onNamed } from "./access.js";
import { define } from "./operation.js";
import * as answer from "./responses.js";

const onIdentity = (action: string) =>
  onNamed<{ readonly identity: string }>(action, "identity", {
    table: "identities",
    id: "identity_id",
    given: ({ identity }) => identity,
  });

/** Identities. */
export const identities = [
  define({
    name: "identities.createIdentity",
    summary: "Makes an identity, with limits that all its keys share.",
    schema: wire.createIdentity,
    wideSchema: wire.createIdentityOfAny,
    answer: answer.createdIdentity,
    access: onAll("create_identity", "identity"),
    statuses: [409],
    act: ({ keyring }, request) => keyring.createIdentity(request),
  }),
  define({
    name: "identities.getIdentity",
    summary: "Shows an identity.",
    schema: schemas.getIdentity,
    answer: answer.identity,
    access: onIdentity("read_identity"),
    act: ({ keyring }, request) => keyring.getIdentity(request),
  }),
  define({
    name: "identities.listIdentities",
    summary: "Lists identities, by id.",
    schema: schemas.listIdentities,
    answer: answer.identity,
    isList: true,
    access: onAll("read_identity", "identity"),
    statuses: [],
    act: ({ keyring }, request) => keyring.listIdentities(request),
  }),
  define({
    name: "identities.updateIdentity",
    summary: "Changes an identity: an absent field keeps, null clears, a given list replaces.",
    schema: schemas.updateIdentity,
    answer: answer.identity,
    access: onIdentity("update_identity"),
    act: ({ keyring }, request) => keyring.updateIdentity(request),
  }),
  define({
    name: "identities.deleteIdentity",
    summary: "Deletes an identity; its keys stay, without one.",
    schema: schemas.getIdentity,
    answer: answer.empty,
    access: onIdentity("delete_identity"),
    act: ({ keyring }, request) => keyring.deleteIdentity(request),
  }),
];
