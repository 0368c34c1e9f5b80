/** A found record as verifications need it, each part made once. Knows no rule of its own. */
import { createAllowlist } from "./addresses.js";
import type { Account } from "./leases.js";
import { createMoulds, type Holdings, type Mould } from "./mould.js";
import { type AppliedLimit, type Limits, limitsOf, toRatelimitResponse } from "./ratelimit.js";
import type { KeyRecord, KeyRef } from "./store.js";
import { deepFreeze } from "./stores/freeze.js";
import type { Identity, JsonObject, Refill } from "./types.js";

/** What a key has that no other may share. */
export interface Own {
  readonly ref: KeyRef;
  readonly keyId: string;
  readonly name: string | undefined;
  readonly expires: number | undefined;
  readonly generation: number;
  readonly limits: Limits;
  /** Rare parts. */
  readonly extra: Extra | undefined;
}

/** Parts that few keys have. Frozen where answers show them. */
export interface Extra {
  readonly meta: JsonObject | undefined;
  /** The identity as answers show it. */
  readonly identity: Identity | undefined;
  /** Whether the allow-lists let an address in (ruling A4). */
  readonly allows: ((address: string | undefined) => boolean) | undefined;
}

/** What a cache keeps for a key. Flat and small, since over many keys most of the time of a verification is waiting for memory. */
export class PreparedKey implements Account {
  readonly mould: Mould;
  readonly expires: number | undefined;
  /** The only limit that every call takes from. */
  readonly lone: AppliedLimit | undefined;
  lease = 0;
  readonly generation: number;
  readonly ref: KeyRef;
  readonly keyId: string;
  readonly name: string | undefined;
  readonly extra: Extra | undefined;
  /** Limits that every call takes from. */
  readonly automatic: readonly AppliedLimit[];
  /** These and those that are checked only when named. */
  readonly named: readonly AppliedLimit[];

  constructor(mould: Mould, { ref, keyId, name, expires, generation, limits, extra }: Own) {
    this.mould = mould;
    this.expires = expires;
    this.lone = limits.lone;
    this.generation = generation;
    this.ref = ref;
    this.keyId = keyId;
    this.name = name;
    this.extra = extra;
    this.automatic = limits.automatic;
    this.named = limits.named;
  }

  get enabled(): boolean {
    return this.mould.enabled;
  }

  /** Its API or workspace is disabled (ruling A4). */
  get suspended(): boolean {
    return this.mould.suspended;
  }

  get limited(): boolean {
    return this.mould.limited;
  }

  get refill(): Refill | undefined {
    return this.mould.refill;
  }

  /** What it may do, and the names that answers list. */
  get holdings(): Holdings {
    return this.mould.holdings;
  }

  /** Whether the allow-lists let this address in (ruling A4). */
  allows(address: string | undefined): boolean {
    return this.extra?.allows === undefined || this.extra.allows(address);
  }
}

/** Prepares records, sharing among them what is the same. */
export function createPreparer(): (record: KeyRecord) => PreparedKey {
  const mouldOf = createMoulds();
  return (record) => {
    const { ref, keyId, name, expires, generation } = record;
    return new PreparedKey(mouldOf(record), { ref, keyId, name, expires, generation, limits: limitsOf(record), extra: extraOf(record) });
  };
}

function extraOf({ meta, identity, ipAllowlists }: KeyRecord): Extra | undefined {
  if (meta === undefined && identity === undefined && ipAllowlists.length === 0) return undefined;
  return {
    // Frozen, since every answer shows these very objects.
    meta: meta && deepFreeze(meta),
    identity: identity && deepFreeze(showIdentity(identity)),
    allows: ipAllowlists.length === 0 ? undefined : lazyAllowlist(ipAllowlists),
  };
}

/** Reads the lists when a call first asks. */
function lazyAllowlist(lists: KeyRecord["ipAllowlists"]): (address: string | undefined) => boolean {
  let allows: ((address: string | undefined) => boolean) | undefined;
  return (address) => (allows ??= createAllowlist(lists))(address);
}

function showIdentity(identity: Identity): Identity {
  const { id, externalId, meta, ratelimits } = identity;
  if (ratelimits === undefined) return identity;
  return { id, externalId, ...(meta !== undefined && { meta }), ratelimits: ratelimits.map(toRatelimitResponse) };
}
