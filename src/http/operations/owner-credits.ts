/** Operations on the credits of one owner, a key or an identity: its grants, its plan and its balance. */
import { getBalance } from "../../keyring/balance.js";
import { changePlan } from "../../keyring/change-plan.js";
import { endGrant, grantCredits, listGrants } from "../../keyring/credit-grants.js";
import { type OwnerField, schemasOf } from "../../keyring/schemas/grants.js";
import type { Access } from "./access.js";
import { bySchema, group, type Operation } from "./operation.js";
import { changedCredits, endedGrant, grantList, newGrant, ownerBalance } from "./responses.js";
import { toWireCredits } from "./wire-key.js";

/** Who may change the credits of an owner, and who may read them. */
interface Accesses<F extends OwnerField> {
  readonly update: Access<Readonly<Record<F, string>>>;
  readonly read: Access<Readonly<Record<F, string>>>;
}

/** @param owner in words, with its article @param field of a request that names it */
export function ownerCreditOperations<F extends OwnerField>(
  groupName: string,
  [owner, field]: readonly [owner: string, field: F],
  { update, read }: Accesses<F>,
): readonly Operation[] {
  const define = group(groupName, ({ keyring }) => keyring);
  const schemas = schemasOf(field);
  return [
    define(grantCredits, {
      reading: bySchema(schemas.grant),
      summary: `Gives ${owner} credits beside its balance, once for each grantId.`,
      answer: newGrant,
      access: update,
      statuses: [404, 409],
    }),
    define(endGrant, {
      reading: bySchema(schemas.end),
      summary: `Ends a grant of ${owner}, and takes away what is left of it.`,
      answer: endedGrant,
      access: update,
    }),
    define(changePlan, {
      reading: bySchema(schemas.plan),
      summary: `Moves ${owner} to another plan: its refill, and at once what that gives more.`,
      answer: changedCredits,
      access: update,
      show: toWireCredits,
    }),
    define(getBalance, {
      reading: bySchema(schemas.owned),
      summary: `What ${owner} could spend now, account by account.`,
      answer: ownerBalance,
      access: read,
    }),
    define(listGrants, {
      reading: bySchema(schemas.grants),
      summary: `Lists the grants of ${owner}.`,
      answer: grantList,
      access: read,
    }),
  ];
}
