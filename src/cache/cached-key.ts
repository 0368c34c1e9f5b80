/**
 * A found record in the form that verifications need, each part computed once.
 *
 * Why loops over the table of fields: a field that the table gives to a part is kept there, and no other line has to
 * name it. A form that leaves a field out makes a key VALID that a check of that field refuses.
 */
import { type FieldsThat, fieldsThat, KEY_FIELDS, type KeyField, type RecordPart } from "../contracts/key-fields.js";
import type { KeyRecord } from "../contracts/store.js";
import type { Identity, Refill } from "../contracts/types.js";
import type { SpendTarget } from "../credits/spender.js";
import { copyFields, ownProperty } from "../lib/check-options.js";
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
import { internPolicies, type KeyPolicy } from "./key-policy.js";

/**
 * The fields of each part that is kept as it is. Of the others, `grants` and `limits` are compiled by name (no field
 * but these can be declared so), and `find` is not kept.
 */
const FIELDS = {
  policy: fieldsThat({ record: "policy" }),
  key: fieldsThat({ record: "key" }),
  rare: fieldsThat({ record: "rare" }),
} satisfies {
  readonly [P in Exclude<RecordPart, "grants" | "limits" | "find">]: readonly FieldsThat<{ record: P }>[];
};

type ValuesOf<Name extends keyof KeyRecord> = { readonly [K in Name]: KeyRecord[K] };

/** Parts that few keys have. Frozen where results contain them. */
export interface RareFields extends ValuesOf<FieldsThat<{ record: "rare" }>> {
  /** Limits of the identity that apply to the key. */
  readonly shared: readonly AppliedLimit[] | undefined;
  /** Whether the allow-lists permit an address; `undefined`: every one. */
  readonly allows: ((address: string | undefined) => boolean) | undefined;
}

/**
 * The cached form of a key. Flat and small, since over many keys most of the time of a verification is waiting for
 * memory: so it is itself the spend target, and the hint of its only limit's bucket.
 */
export class CachedKey implements SpendTarget, LimitedKey, ValuesOf<FieldsThat<{ record: "key" }>> {
  readonly policy: KeyPolicy;
  readonly rare: RareFields;
  /** Of the key's limits: the id of the only one, or a list. */
  readonly limitIds: string | readonly string[];
  lease: object | undefined = undefined;
  /** Hint: where the bucket of its only limit was found last. */
  row = -1;
  h0 = 0;
  h1 = 0;
  /** Minute of Unix time in which its use was noted last. */
  usedMinute = 0;
  // Set by the loop over the table, which leaves none out.
  declare readonly ref: KeyRecord["ref"];
  declare readonly keyId: KeyRecord["keyId"];
  declare readonly name: KeyRecord["name"];
  declare readonly expires: KeyRecord["expires"];
  declare readonly generation: KeyRecord["generation"];
  declare readonly startUnknown: KeyRecord["startUnknown"];
  #limits: Limits | undefined = undefined;

  constructor(policy: KeyPolicy, rare: RareFields, record: KeyRecord) {
    this.policy = policy;
    this.rare = rare;
    const { ratelimits } = record;
    this.limitIds = ratelimits.length === 1 ? (ratelimits[0] as { id: string }).id : ratelimits.map(({ id }) => id);
    copyFields(this, record, FIELDS.key);
    // Only credits are spent by ref.
    if (rare.account !== undefined) this.ref = rare.account.ref;
  }

  get refill(): Refill | undefined {
    return this.policy.refill;
  }

  get onlyLimit(): LimitKind | undefined {
    return this.rare.shared === undefined ? this.policy.onlyLimit : undefined;
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
    return this.rare.identity;
  }

  /** Whose buckets its limits have. */
  get bucketOwner(): string {
    return this.rare.account?.id ?? this.keyId;
  }

  /** Keeps its buckets and those of its identity together. */
  get shard(): string {
    return this.rare.identity?.id ?? this.bucketOwner;
  }

  /** The bucket of the only limit. */
  get bucket(): string {
    return bucketOf(this.bucketOwner, (this.policy.onlyLimit as LimitKind).name);
  }

  /**
   * All its limits, as lists. Those of a key with one limit are made anew for each call: kept, they take 480 bytes of
   * every key as soon as a limiter is given that does not use hints.
   */
  get limits(): Limits {
    if (this.#limits !== undefined) return this.#limits;
    const { bucketOwner, workspaceId, shard, policy, limitIds, rare } = this;
    const limits = toLimits(
      bucketOwner,
      workspaceId,
      shard,
      policy.limits,
      typeof limitIds === "string" ? [limitIds] : limitIds,
      rare.shared,
    );
    if (this.onlyLimit === undefined) this.#limits = limits;
    return limits;
  }

  foundAt(row: number, h0: number, h1: number): void {
    this.row = row;
    this.h0 = h0;
    this.h1 = h1;
  }

  usedIn(minute: number): void {
    this.usedMinute = minute;
  }

  /** Whether the allow-lists permit this address. */
  allows(address: string | undefined): boolean {
    return this.rare.allows === undefined || this.rare.allows(address);
  }
}

/** Prepares records; those with the same policy share it. */
export function createPreparer(): (record: KeyRecord) => CachedKey {
  const policyOf = internPolicies(FIELDS.policy);
  return (record) => new CachedKey(policyOf(record), rareOf(record), record);
}

/** Of every key that has none of these fields, or the default of each. */
const NOTHING_RARE = Object.freeze({
  ...(Object.fromEntries(FIELDS.rare.map((field) => [field, usualOf(field)])) as ValuesOf<
    FieldsThat<{ record: "rare" }>
  >),
  shared: undefined,
  allows: undefined,
}) satisfies RareFields;

function rareOf(record: KeyRecord): RareFields {
  if (FIELDS.rare.every((field) => isUsual(ownProperty(record, field), usualOf(field)))) return NOTHING_RARE;
  const fields = copyFields({}, record, FIELDS.rare);
  const { meta, identity, ipAllowlists } = fields;
  return {
    ...fields,
    // Frozen, since every result contains these very objects.
    meta: meta && deepFreeze(meta),
    identity: identity && deepFreeze(clampIdentity(identity)),
    shared: sharedLimits(record),
    allows: ipAllowlists.length === 0 ? undefined : lazyAllowlist(ipAllowlists),
  };
}

/** The default of a field. @returns undefined for one that may be absent */
function usualOf(field: keyof KeyRecord): unknown {
  return (KEY_FIELDS[field] as KeyField).usual;
}

/** Whether a value is absent or the default; an empty list is so only if that is the default. */
function isUsual(value: unknown, usual: unknown): boolean {
  if (value === undefined || value === usual) return true;
  return Array.isArray(usual) && Array.isArray(value) && usual.length + value.length === 0;
}

/** Parses the lists at the first call. */
function lazyAllowlist(lists: KeyRecord["ipAllowlists"]): (address: string | undefined) => boolean {
  let allows: ((address: string | undefined) => boolean) | undefined;
  return (address) => (allows ??= createAllowlist(lists))(address);
}
