/** A found record in the form that verifications need, each part computed once. */
import { type FieldsThat, fieldsThat } from "../contracts/key-fields.js";
import type { KeyRecord, KeyRef } from "../contracts/store.js";
import type { Identity, Refill } from "../contracts/types.js";
import type { SpendTarget } from "../credits/spender.js";
import { ownProperty } from "../lib/check-options.js";
import { deepFreeze } from "../lib/deep-freeze.js";
import { createAllowlist } from "../lib/ip-ranges.js";
import {
  type AppliedLimit,
  bucketOf,
  clampIdentity,
  type LimitedKey,
  type LimitKind,
  type Limits,
  sharedLimits,
  toLimits,
} from "../ratelimit/applied-limits.js";
import { type GrantSet, internPolicies, type KeyPolicy } from "./key-policy.js";

type ValuesOf<Name extends keyof KeyRecord> = { readonly [K in Name]: KeyRecord[K] };

/** Fields that belong to one key alone. */
export interface CoreFields extends ValuesOf<FieldsThat<{ record: "key" }>> {
  /** Of the key's limits: the id of the only one, or a list. */
  readonly limitIds: string | readonly string[];
  readonly rare: RareFields | undefined;
}

/** Parts that few keys have. Frozen where results contain them. */
export interface RareFields extends ValuesOf<FieldsThat<{ record: "rare" }>> {
  /** Limits of the identity that apply to the key. */
  readonly shared: readonly AppliedLimit[] | undefined;
  /** Whether the allow-lists permit an address. */
  readonly allows: ((address: string | undefined) => boolean) | undefined;
}

/** Where a key is packed: the hints of the object are written back to it. */
export interface PackedSlot {
  writeBack(entry: number, key: CachedKey): void;
}

/**
 * The cached form of a key. Flat and small, since over many keys most of the time of a verification is waiting for
 * memory: so it is itself the spend target, and the hint of its only limit's bucket.
 */
export class CachedKey implements SpendTarget, LimitedKey, CoreFields {
  readonly policy: KeyPolicy;
  readonly expires: number | undefined;
  lease: object | undefined = undefined;
  /** Hint: where the bucket of its only limit was found last. */
  row = -1;
  h0 = 0;
  h1 = 0;
  /** Minute of Unix time in which its use was noted last. */
  usedMinute = 0;
  readonly generation: number;
  readonly ref: KeyRef;
  readonly keyId: string;
  readonly name: string | undefined;
  readonly startUnknown: true | undefined;
  readonly limitIds: string | readonly string[];
  readonly rare: RareFields | undefined;
  #slot: PackedSlot | undefined;
  #entry: number;
  #limits: Limits | undefined = undefined;

  constructor(
    policy: KeyPolicy,
    { ref, keyId, name, expires, generation, startUnknown, limitIds, rare }: CoreFields,
    slot?: PackedSlot,
    entry = 0,
  ) {
    this.policy = policy;
    this.expires = expires;
    this.generation = generation;
    this.ref = ref;
    this.keyId = keyId;
    this.name = name;
    this.startUnknown = startUnknown;
    this.limitIds = limitIds;
    this.rare = rare;
    this.#slot = slot;
    this.#entry = entry;
  }

  get enabled(): boolean {
    return this.policy.enabled;
  }

  /** Its API or workspace is disabled. */
  get parentDisabled(): boolean {
    return this.policy.parentDisabled;
  }

  get hasCredits(): boolean {
    return this.policy.hasCredits;
  }

  get refill(): Refill | undefined {
    return this.policy.refill;
  }

  /** Its permissions and roles, and the names that results list. */
  get grants(): GrantSet {
    return this.policy.grants;
  }

  get onlyLimit(): LimitKind | undefined {
    return this.rare?.shared === undefined ? this.policy.onlyLimit : undefined;
  }

  get onlyLimitId(): string {
    return this.limitIds as string;
  }

  get workspaceId(): string {
    return this.policy.workspaceId;
  }

  get apiId(): string {
    return this.policy.apiId;
  }

  get grantIds(): readonly string[] | undefined {
    return this.policy.grantIds;
  }

  get identity(): Identity | undefined {
    return this.rare?.identity;
  }

  /** Whose buckets its limits have. */
  get bucketOwner(): string {
    return this.rare?.account?.id ?? this.keyId;
  }

  /** Keeps its buckets and those of its identity together. */
  get shard(): string {
    return this.rare?.identity?.id ?? this.bucketOwner;
  }

  /** The bucket of the only limit. */
  get bucket(): string {
    return bucketOf(this.bucketOwner, (this.policy.onlyLimit as LimitKind).name);
  }

  /** All its limits, as lists. */
  get limits(): Limits {
    const { bucketOwner, workspaceId, shard, policy, limitIds, rare } = this;
    return (this.#limits ??= toLimits(
      bucketOwner,
      workspaceId,
      shard,
      policy.limits,
      typeof limitIds === "string" ? [limitIds] : limitIds,
      rare?.shared,
    ));
  }

  /** Writes hints back to this slot from now on. */
  attach(slot: PackedSlot, entry: number): void {
    this.#slot = slot;
    this.#entry = entry;
  }

  foundAt(row: number, h0: number, h1: number): void {
    this.row = row;
    this.h0 = h0;
    this.h1 = h1;
    this.#slot?.writeBack(this.#entry, this);
  }

  usedIn(minute: number): void {
    this.usedMinute = minute;
    this.#slot?.writeBack(this.#entry, this);
  }

  /** Whether the allow-lists permit this address. */
  allows(address: string | undefined): boolean {
    return this.rare?.allows === undefined || this.rare.allows(address);
  }
}

/** Prepares records; those with the same policy share it. */
export function createPreparer(): (record: KeyRecord) => CachedKey {
  const policyOf = internPolicies();
  return (found) => {
    const record = withoutInherited(found);
    const { keyId, name, expires, generation, startUnknown, ratelimits } = record;
    // Only credits are spent by ref.
    const ref = record.account?.ref ?? record.ref;
    const ids = ratelimits.map(({ id }) => id);
    const limitIds = ids.length === 1 ? (ids[0] as string) : ids;
    return new CachedKey(policyOf(record), {
      ref,
      keyId,
      name,
      expires,
      generation,
      startUnknown,
      limitIds,
      rare: rareOf(record),
    });
  };
}

/**
 * A field that the record lacks must not come from a polluted prototype. Written out: a spread takes several times as
 * long.
 */
function withoutInherited(record: KeyRecord): KeyRecord {
  return {
    ref: record.ref,
    keyId: record.keyId,
    workspaceId: record.workspaceId,
    apiId: record.apiId,
    name: ownProperty(record, "name"),
    meta: ownProperty(record, "meta"),
    expires: ownProperty(record, "expires"),
    enabled: record.enabled,
    permissions: record.permissions,
    roles: record.roles,
    grantIds: ownProperty(record, "grantIds"),
    identity: ownProperty(record, "identity"),
    account: ownProperty(record, "account"),
    ratelimits: record.ratelimits,
    hasCredits: record.hasCredits,
    refill: ownProperty(record, "refill"),
    generation: record.generation,
    parentDisabled: record.parentDisabled,
    unadopted: record.unadopted,
    startUnknown: ownProperty(record, "startUnknown"),
    ipAllowlists: record.ipAllowlists,
  } satisfies Record<keyof KeyRecord, unknown> as KeyRecord;
}

const RARE = fieldsThat({ record: "rare" });

function rareOf(record: KeyRecord): RareFields | undefined {
  if (RARE.every((field) => isNothing(record[field]))) return undefined;
  const { meta, identity, ipAllowlists, account } = record;
  return {
    // Frozen, since every result contains these very objects.
    meta: meta && deepFreeze(meta),
    identity: identity && deepFreeze(clampIdentity(identity)),
    ipAllowlists,
    account,
    shared: sharedLimits(record),
    allows: ipAllowlists.length === 0 ? undefined : lazyAllowlist(ipAllowlists),
  };
}

const isNothing = (value: unknown): boolean => value === undefined || (Array.isArray(value) && value.length === 0);

/** Parses the lists at the first call. */
function lazyAllowlist(lists: KeyRecord["ipAllowlists"]): (address: string | undefined) => boolean {
  let allows: ((address: string | undefined) => boolean) | undefined;
  return (address) => (allows ??= createAllowlist(lists))(address);
}
