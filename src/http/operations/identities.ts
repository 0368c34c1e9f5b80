/** Operations `identities.*`. */
import * as identities from "../../keyring/identities.js";
import type { V2IdentitiesCreateIdentityResponseData } from "../../keyring/schemas/responses.js";
import { updateIdentityCredits } from "../../keyring/update-credits.js";
import { onAll, onNamed } from "./access.js";
import { byExternalIds, group } from "./operation.js";
import { ownerCreditOperations } from "./owner-credits.js";
import { changedCredits, identity, listedIdentity, object, text } from "./responses.js";
import { toWireCredits, toWireIdentity } from "./wire-key.js";

const define = group("identities", ({ keyring }) => keyring);

const onIdentity = (action: string) =>
  onNamed<{ readonly identity: string }>(action, "identity", {
    table: "identities",
    id: "identity_id",
    given: ({ identity }) => identity,
  });

/** Named as that of keys is; in the audit trail it has its name in the library. */
const updateCredits: typeof updateIdentityCredits = {
  ...updateIdentityCredits,
  name: "updateCredits",
  act: (context, request) => updateIdentityCredits.act({ ...context, operation: updateIdentityCredits.name }, request),
};

/** Identities. */
export const identityOperations = [
  define(identities.createIdentity, {
    reading: byExternalIds(identities.newIdentity),
    summary: "Makes an identity, with limits and credits that all its keys share.",
    answer: object<V2IdentitiesCreateIdentityResponseData>({ identityId: text }),
    access: onAll("create_identity", "identity"),
    statuses: [409],
  }),
  define(identities.getIdentity, {
    summary: "Shows an identity.",
    answer: identity,
    access: onIdentity("read_identity"),
    show: toWireIdentity,
  }),
  define(identities.listIdentities, {
    summary: "Lists identities, by id.",
    answer: listedIdentity,
    isList: true,
    access: onAll("read_identity", "identity"),
    statuses: [],
  }),
  define(identities.updateIdentity, {
    summary: "Changes an identity: an absent field keeps, null clears, a given list replaces.",
    answer: identity,
    access: onIdentity("update_identity"),
  }),
  define(updateCredits, {
    summary: "Sets, raises or lowers the credits that an identity's keys share, and returns the balance.",
    answer: changedCredits,
    access: onIdentity("update_identity"),
    show: toWireCredits,
  }),
  ...ownerCreditOperations("identities", ["an identity", "identity"], {
    update: onIdentity("update_identity"),
    read: onIdentity("read_identity"),
  }),
  define(identities.deleteIdentity, {
    summary: "Deletes an identity; its keys stay, without one.",
    access: onIdentity("delete_identity"),
    statuses: [404, 409],
  }),
];
