/** A found record with what verifications derive from it, each part made once, when first needed. Knows no rule of its own. */
import { createGrants, type Grants } from "./permissions.js";
import { type KeyLimits, limitsOf } from "./ratelimit.js";
import type { KeyRecord } from "./store.js";
import type { Identity } from "./types.js";
import { toRatelimitResponse } from "./ratelimit.js";

/** What a cache keeps for a key. */
export interface PreparedKey {
  readonly record: KeyRecord;
  /** The identity as answers show it. */
  readonly identity: Identity | undefined;
  /** Its granted permissions, ready to be asked. */
  readonly grants: Grants;
  readonly limits: KeyLimits;
}

/** @see ruling B3, C1 · lazy: a key that is looked up once and disabled needs neither grants nor limits */
export function prepareKey(record: KeyRecord): PreparedKey {
  let grants: Grants | undefined;
  let limits: KeyLimits | undefined;
  let identity: Identity | undefined;
  return {
    record,
    get identity() {
      return (identity ??= record.identity && showIdentity(record.identity));
    },
    get grants() {
      return (grants ??= createGrants(record.permissions));
    },
    get limits() {
      return (limits ??= limitsOf(record));
    },
  };
}

function showIdentity({ ratelimits, ...identity }: Identity): Identity {
  return ratelimits === undefined ? identity : { ...identity, ratelimits: ratelimits.map(toRatelimitResponse) };
}
