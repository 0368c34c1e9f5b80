/**
 * The record of a key in the form that verifications need; each part is computed once.
 *
 * Why loops over the table of fields: each field is copied to the part that the table names, and no other line has to
 * name it. If a field were left out, its check would pass for keys that it should refuse.
 */
import { type FieldsThat, fieldsThat, KEY_FIELDS, type KeyField, type RecordPart } from "../contracts/key-fields.js";
import type { KeyRecord, NumberedRefill } from "../contracts/store.js";
import type { Identity, RatelimitResponse } from "../contracts/types.js";
import type { SpendTarget } from "../credits/spender.js";
import { copyFields, ownProperty } from "../lib/check-options.js";
import { deepFreeze } from "../lib/deep-freeze.js";
import { createAllowlist } from "../lib/ip-ranges.js";
import type { Mutable } from "../lib/mutable.js";
import {
  type AppliedLimit,
  type LimitedKey,
  type LimitKind,
  sharedLimits,
  toApplied,
} from "../ratelimit/applied-limits.js";
import { clampIdentity } from "../ratelimit/take-limits.js";
import { internPolicies, type KeyPolicy } from "./key-policy.js";

/**
 * The fields of each part that is copied unchanged. Of the other parts, `grants` and `limits` are compiled by name (no
 * other field can be declared so), and `find` is not kept.
 */
const FIELDS = {
  policy: fieldsThat({ record: "policy" }),
  key: fieldsThat({ record: "key" }),
  rare: fieldsThat({ record: "rare" }),
} satisfies {
  readonly [P in Exclude<RecordPart, "grants" | "limits" | "find">]: readonly FieldsThat<{ record: P }>[];
};

type ValuesOf<Name extends keyof KeyRecord> = { readonly [K in Name]: KeyRecord[K] };

/** Values that few keys have. Those that results contain are frozen. */
export interface RareFields extends ValuesOf<FieldsThat<{ record: "rare" }>> {
  /** Limits of the identity that apply to the key. */
  readonly shared: readonly AppliedLimit[] | undefined;
  /** Whether the allow-lists permit an address; `undefined`: every address is permitted. */
  readonly allows: ((address: string | undefined) => boolean) | undefined;
}

/**
 * Set by the loop over the table, which leaves none out. Not declared one by one: a field declared here that the table
 * gives to another part would be `undefined`, and its check would pass.
 */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging, typescript/no-empty-object-type
export interface CachedKey extends ValuesOf<FieldsThat<{ record: "key" }>> {}

/**
 * The cached form of a key. It is flat and small, because with many keys most of a verification's time is waiting for
 * memory. So it is itself the spend target, and the place of its only limit's bucket.
 */
export class CachedKey implements SpendTarget, LimitedKey {
  readonly policy: KeyPolicy;
  readonly rare: RareFields;
  lease: SpendTarget["lease"] = undefined;
  bucketChunk: LimitedKey["bucketChunk"] = undefined;
  bucketAt = 0;
  bucketVersion = 0;
  /** Minute of Unix time in which its use was last noted. */
  usedMinute = 0;
  /** Hint: place of the row where it was last counted. */
  cell = -1;
  readonly limitsOrId: LimitedKey["limitsOrId"];

  constructor(policy: KeyPolicy, rare: RareFields, record: KeyRecord) {
    this.policy = policy;
    this.rare = rare;
    copyFields(this, record, FIELDS.key);
    // The ref is used only to spend credits, so it may be that of another account.
    if (rare.account !== undefined) (this as Mutable<CachedKey>).ref = rare.account.ref;
    const { ratelimits } = record;
    const [only] = ratelimits;
    const isOnly = ratelimits.length === 1 && rare.shared === undefined;
    this.limitsOrId = isOnly ? (only as RatelimitResponse).id : limitsOf(this, ratelimits);
  }

  get refill(): NumberedRefill | undefined {
    return this.policy.refill;
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

  /** The account of its credits; absent: they are unlimited. */
  get account(): KeyRecord["ref"] | undefined {
    return this.policy.hasCredits ? this.ref : undefined;
  }

  /** The wallets that cover a call, if there are several accounts. */
  get wallets(): KeyRecord["wallets"] {
    return this.rare.wallets;
  }

  /** Where its own credits are a cap inside those of its identity: the main account of that. */
  get ownerAccount(): KeyRecord["ref"] | undefined {
    return this.rare.wallets?.[1]?.accounts.find(({ grantId }) => grantId === undefined)?.ref;
  }

  get identity(): Identity | undefined {
    return this.rare.identity;
  }

  /** The owner of its limits' buckets: the shared account, or else the key. */
  get bucketOwner(): string {
    return this.rare.account?.id ?? this.keyId;
  }

  /** Shard of its buckets: that of its identity, so that both are in one shard. */
  get shard(): string {
    return this.rare.identity?.id ?? this.bucketOwner;
  }

  get limits(): readonly AppliedLimit[] {
    const { limitsOrId } = this;
    if (typeof limitsOrId !== "string") return limitsOrId;
    return [toApplied(this, this.policy.limits[0] as LimitKind, { id: limitsOrId, place: this })];
  }

  /**
   * Prefetches its lease and its bucket: both are loaded from memory while permissions are checked. With any of 150,000
   * keys next, a call takes 11 to 27 % less.
   * @returns a number without meaning; the caller must store it, or the engine leaves the reads out
   */
  prefetch(): number {
    return (this.lease?.available ?? 0) + (this.bucketChunk?.prefetch(this.bucketAt) ?? 0);
  }

  usedIn(minute: number): void {
    this.usedMinute = minute;
  }
}

/**
 * The limits of a key. Takes names from the policy, whose texts keys share. Not a private method: the engine marks the
 * objects of a class that has one, each with 8 bytes in front of its fields.
 */
function limitsOf(key: CachedKey, ratelimits: readonly RatelimitResponse[]): readonly AppliedLimit[] {
  const { policy, rare } = key;
  const own = policy.limits.map((kind, i) => toApplied(key, kind, { id: (ratelimits[i] as RatelimitResponse).id }));
  if (rare.shared !== undefined) return [...own, ...rare.shared];
  return own.length === 0 ? NO_LIMITS : own;
}

const NO_LIMITS: readonly AppliedLimit[] = Object.freeze([]);

/** Prepares records; keys with equal policies share one policy object. */
export function createPreparer(): (record: KeyRecord) => CachedKey {
  const policyOf = internPolicies(FIELDS.policy);
  return (record) => new CachedKey(policyOf(record), rareOf(record), record);
}

/** Shared by keys for which each of these fields is absent or the default. */
const NOTHING_RARE = Object.freeze({
  ...(Object.fromEntries(FIELDS.rare.map((field) => [field, (KEY_FIELDS[field] as KeyField).usual])) as ValuesOf<
    FieldsThat<{ record: "rare" }>
  >),
  shared: undefined,
  allows: undefined,
}) satisfies RareFields;

function rareOf(record: KeyRecord): RareFields {
  let isRare = false;
  for (const field of FIELDS.rare) isRare ||= !isUsual(ownProperty(record, field), NOTHING_RARE[field]);
  if (!isRare) return NOTHING_RARE;
  const fields = copyFields({}, record, FIELDS.rare);
  const { meta, identity, ipAllowlists } = fields;
  return {
    ...fields,
    // Frozen, since results contain these objects themselves.
    meta: meta && deepFreeze(meta),
    identity: identity && deepFreeze(clampIdentity(identity)),
    shared: sharedLimits(record),
    allows: ipAllowlists.length === 0 ? undefined : lazyAllowlist(ipAllowlists),
  };
}

/** Whether a value is absent or the default, such as an empty list. */
function isUsual(value: unknown, usual: unknown): boolean {
  if (value === undefined || value === usual) return true;
  return Array.isArray(usual) && Array.isArray(value) && usual.length + value.length === 0;
}

function lazyAllowlist(lists: KeyRecord["ipAllowlists"]): (address: string | undefined) => boolean {
  let allows: ((address: string | undefined) => boolean) | undefined;
  return (address) => (allows ??= createAllowlist(lists))(address);
}
