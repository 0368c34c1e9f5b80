/** A found record with what verifications derive from it, each part made once, when first needed. Knows no rule of its own. */
import { LRUCache } from "lru-cache";
import { createAllowlist } from "./addresses.js";
import type { Account, Lease } from "./leases.js";
import { createGrants, type Grants, type Query } from "./permissions.js";
import { type KeyLimits, limitsOf, toRatelimitResponse } from "./ratelimit.js";
import type { KeyRecord } from "./store.js";
import { deepFreeze } from "./stores/freeze.js";
import type { Identity, JsonObject } from "./types.js";

/**
 * What a cache keeps for a key. Why the record's values stand here again: a verification then reads one object instead of
 * five, and over 4,096 keys most of its time is waiting for memory.
 */
export class PreparedKey implements Account {
  readonly enabled: boolean;
  /** Its API or workspace is disabled (ruling A4). */
  readonly suspended: boolean;
  readonly limited: boolean;
  readonly #isGuarded: boolean;
  readonly expires: number | undefined;
  readonly keyId: string;
  readonly name: string | undefined;
  readonly meta: JsonObject | undefined;
  /** The identity as answers show it. */
  readonly identity: Identity | undefined;
  lease: Lease | undefined = undefined;
  /** Limits that every call takes from. */
  readonly limits: KeyLimits;
  #holdings: Holdings | undefined;
  #allows: ((address: string | undefined) => boolean) | undefined;
  readonly record: KeyRecord;
  readonly #share: Share;

  constructor(record: KeyRecord, share: Share) {
    this.record = record;
    this.enabled = record.enabled;
    this.suspended = record.suspended;
    this.limited = record.limited;
    this.#isGuarded = record.ipAllowlists.length > 0;
    this.expires = record.expires;
    this.keyId = record.keyId;
    this.name = record.name;
    // Frozen, since every answer shows these very objects; the rest of the record never leaves.
    this.meta = record.meta && deepFreeze(record.meta);
    this.identity = record.identity && deepFreeze(showIdentity(record.identity));
    this.limits = limitsOf(record);
    this.#share = share;
  }

  /** What it may do, and the names that answers list. */
  get holdings(): Holdings {
    return (this.#holdings ??= this.#share(this.record));
  }

  /** Whether the allow-lists let this address in (ruling A4). */
  allows(address: string | undefined): boolean {
    if (!this.#isGuarded) return true;
    return (this.#allows ??= createAllowlist(this.record.ipAllowlists))(address);
  }
}

/** Permissions and roles. Shared by all keys that have the same: these few stay in the processor's cache. */
export class Holdings {
  readonly #grants: Grants;
  #query: Query | undefined;
  #satisfied = false;
  /** Lists to cut each answer's own from: `slice` of a frozen array takes 310 ns, of these 9 ns. They never leave as they are. */
  readonly #permissions: string[];
  readonly #roles: string[];

  constructor({ permissions, roles }: KeyRecord) {
    this.#grants = createGrants(permissions);
    this.#permissions = [...permissions];
    this.#roles = [...roles];
  }

  /** Whether they satisfy a query. The last question is remembered: an application asks few, and these answers never change. */
  satisfy(query: Query): boolean {
    if (this.#query !== query) {
      this.#satisfied = query.satisfiedBy(this.#grants);
      this.#query = query;
    }
    return this.#satisfied;
  }

  /** All permission names, in a list of the caller's own. */
  copyPermissions(): string[] {
    return this.#permissions.slice();
  }

  /** All role names, in a list of the caller's own. */
  copyRoles(): string[] {
    return this.#roles.slice();
  }
}

type Share = (record: KeyRecord) => Holdings;

/** Different holdings that are remembered. */
const HOLDINGS = 10_000;

/**
 * Prepares records, sharing among them what is the same.
 * @see rulings A4, B3, C1 · what needs the permissions is made when a call first asks for them
 */
export function createPreparer(): (record: KeyRecord) => PreparedKey {
  const shared = new LRUCache<string, Holdings>({ max: HOLDINGS });
  const share: Share = (record) => {
    const list = nameHoldings(record);
    let holdings = shared.get(list);
    if (holdings === undefined) shared.set(list, (holdings = new Holdings(record)));
    return holdings;
  };
  return (record) => new PreparedKey(record, share);
}

const NO_BLANKS = /^\S+$/;

/** A text for each list of permissions and roles, another for each other one: keys whose texts are the same may do the same. */
function nameHoldings({ permissions, roles }: KeyRecord): string {
  // The keyring makes no names with blanks (ruling B1), but a store may hold some: JSON, which takes 430 ns against 170, tells them apart.
  if (!permissions.every((name) => NO_BLANKS.test(name))) return ` ${JSON.stringify([permissions, roles])}`;
  const list = permissions.join(" ");
  return roles.length === 0 ? list : `${list}\n${JSON.stringify(roles)}`;
}

function showIdentity(identity: Identity): Identity {
  const { id, externalId, meta, ratelimits } = identity;
  if (ratelimits === undefined) return identity;
  return { id, externalId, ...(meta !== undefined && { meta }), ratelimits: ratelimits.map(toRatelimitResponse) };
}
