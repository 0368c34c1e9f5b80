/** An identity as a verification returns it. */
import type { IdentityRow } from "../contracts/store.js";
import type { Identity } from "../contracts/types.js";
import type { Mutable } from "./mutable.js";

/** An identity as answers show it (contract 2.2). */
export function toIdentity(row: IdentityRow): Identity {
  const { id, externalId, ratelimits } = row;
  const identity: Mutable<Identity> = { id, externalId };
  if (Object.hasOwn(row, "meta") && row.meta !== undefined) identity.meta = row.meta;
  if (ratelimits.length > 0) identity.ratelimits = ratelimits;
  return identity;
}
