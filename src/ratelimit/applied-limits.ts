/** Which rate limits apply to a call, and the form of their results. Spec §2.1, §2.2. */
import { badRequest, type ValidationProblem } from "../contracts/errors.js";
import type { LimitVerdict } from "../contracts/limiter.js";
import type { KeyRecord } from "../contracts/store.js";
import type { Identity, RatelimitResponse, VerifyKeyRatelimitData } from "../contracts/types.js";
import { ownProperty } from "../lib/check-options.js";
import { shortDigest } from "../lib/hash.js";
import { type BucketHint, type HintedCheck, hintFor } from "./memory/bucket-hint.js";

/** Bounds of results (spec §8); decisions use the unclamped values. */
const LIMIT = { min: 1, max: 1_000_000 };
const DURATION = { min: 1_000, max: 2_592_000_000 };
const NAME_LENGTH = 128;

/** One rate limit that a request asks for, validated. */
export interface RatelimitCheck {
  readonly name: string;
  readonly cost: number;
  readonly limit: number | undefined;
  readonly duration: number | undefined;
}

/** A limit without its id. */
export type LimitKind = Omit<RatelimitResponse, "id">;

/** A limit that applies to a call: the check for the limiter, and what the response shows. */
export interface AppliedLimit extends HintedCheck, LimitKind {
  readonly id: string;
}

/** The limits of a key, including its identity's, ready to apply to any call. */
export interface Limits {
  /** Limits checked on every call, at cost 1. */
  readonly automatic: readonly AppliedLimit[];
  /**
   * All limits, including those checked only when named; one per name. There are few, so they are searched linearly.
   */
  readonly named: readonly AppliedLimit[];
}

/** What the limits need of a key. It is also the hint of its only limit's bucket. */
export interface LimitedKey extends BucketHint {
  readonly keyId: string;
  /** The key after which the buckets of its limits are named; another than itself for a key that replaced one. */
  readonly bucketOwner: string;
  /** Of all its buckets: its identity's id, or else the owner's. */
  readonly shard: string;
  /** The key's only limit, if it is automatic; and its id. */
  readonly onlyLimit: LimitKind | undefined;
  readonly onlyLimitId: string;
  readonly limits: Limits;
}

/** The limits of an identity that apply to one of its keys: a limit of the key replaces one of the same name. */
export function sharedLimits(record: KeyRecord): readonly AppliedLimit[] | undefined {
  const { ratelimits, workspaceId } = record;
  const identity = ownProperty(record, "identity");
  const shared =
    (identity && ownProperty(identity, "ratelimits"))?.filter(
      ({ name }) => !ratelimits.some((limit) => limit.name === name),
    ) ?? [];
  return shared.length === 0
    ? undefined
    : shared.map((limit) =>
        toApplied((identity as Identity).id, workspaceId, (identity as Identity).id, limit, limit.id),
      );
}

/**
 * Collects the limits of a key.
 * @param owner of the buckets
 * @param workspaceId of the key
 * @param shard of all buckets of the key
 * @param ids of the key's limits, in the order of `kinds`
 */
export function toLimits(
  owner: string,
  workspaceId: string,
  shard: string,
  kinds: readonly LimitKind[],
  ids: readonly string[],
  shared: readonly AppliedLimit[] = [],
): Limits {
  const keyLimits = kinds.map((kind, i) => toApplied(owner, workspaceId, shard, kind, ids[i] as string));
  const named = shared.length === 0 ? keyLimits : [...keyLimits, ...shared];
  return { automatic: named.every(isAutomatic) ? named : named.filter(isAutomatic), named };
}

function toApplied(
  owner: string,
  workspaceId: string,
  shard: string,
  { name, limit, duration, autoApply }: LimitKind,
  id: string,
): AppliedLimit {
  const bucket = bucketOf(owner, name);
  return {
    bucket,
    limit,
    duration,
    cost: 1,
    id,
    name,
    autoApply,
    workspaceId,
    shard,
    isAdHoc: undefined,
    hint: hintFor(bucket, workspaceId),
    configured: undefined,
  };
}

const isAutomatic = ({ autoApply }: AppliedLimit) => autoApply;

/**
 * The limits that apply to one call: the automatic ones that the request does not name, then the requested ones in
 * their order.
 * @throws KeystileError BAD_REQUEST at `body.ratelimits[i].name` for a name that no limit has, unless both `limit` and
 *   `duration` are given; the message contains no names
 */
export function applyLimits(
  key: Pick<LimitedKey, "keyId" | "bucketOwner" | "workspaceId" | "shard" | "limits">,
  requested: readonly RatelimitCheck[],
): readonly AppliedLimit[] {
  const { limits } = key;
  if (requested.length === 0) return limits.automatic;
  const named = new Set<string>();
  for (const { name } of requested) named.add(name);
  const applied = limits.automatic.filter(({ name }) => !named.has(name));
  const problems: ValidationProblem[] = [];
  requested.forEach((check, i) => {
    const limit = limits.named.find(({ name }) => name === check.name) ?? adHoc(key, check);
    if (limit !== undefined) applied.push(override(limit, check));
    else
      problems.push({
        location: `body.ratelimits[${i}].name`,
        message: "names no rate limit of this key",
        fix: "name an existing limit, or give both limit and duration",
      });
  });
  if (problems.length > 0) throw badRequest(problems);
  return applied;
}

/** The result of one check in a response, with numbers clamped to the schema's bounds. */
export function toRatelimitData(
  { name, autoApply, limit, duration }: LimitKind,
  id: string,
  verdict: LimitVerdict,
): VerifyKeyRatelimitData {
  return {
    exceeded: verdict.exceeded,
    id,
    name,
    limit: clamp(limit, LIMIT.min, LIMIT.max),
    duration: clamp(duration, DURATION.min, DURATION.max),
    reset: boundReset(verdict.reset),
    remaining: clamp(verdict.remaining, 0, LIMIT.max),
    autoApply,
  };
}

/** Milliseconds until a bucket is full, clamped as in every response. */
export function boundReset(reset: number): number {
  return clamp(reset, DURATION.min, DURATION.max);
}

/** A limit in a response where nothing was checked. */
export function toRatelimitResponse({ id, name, limit, duration, autoApply }: RatelimitResponse): RatelimitResponse {
  return {
    id,
    name,
    limit: clamp(limit, LIMIT.min, LIMIT.max),
    duration: clamp(duration, DURATION.min, DURATION.max),
    autoApply,
  };
}

/** An identity in a response, with its limits clamped. */
export function clampIdentity(identity: Identity): Identity {
  const { id, externalId } = identity;
  const meta = ownProperty(identity, "meta");
  const ratelimits = ownProperty(identity, "ratelimits");
  if (ratelimits === undefined) return identity;
  return { id, externalId, ...(meta !== undefined && { meta }), ratelimits: ratelimits.map(toRatelimitResponse) };
}

function override(
  known: AppliedLimit,
  { cost, limit = known.limit, duration = known.duration }: RatelimitCheck,
): AppliedLimit {
  const { bucket, id, name, autoApply, workspaceId, shard, isAdHoc, hint } = known;
  const configured = limit === known.limit && duration === known.duration ? undefined : known;
  return { bucket, limit, duration, cost, id, name, autoApply, workspaceId, shard, isAdHoc, hint, configured };
}

/**
 * A limit that exists only in this request. Its name is truncated for the response: requests allow 255 code points,
 * results 128 (spec §8).
 */
function adHoc(
  { keyId, bucketOwner: owner, workspaceId, shard }: Omit<Parameters<typeof applyLimits>[0], "limits">,
  { name, limit, duration, cost }: RatelimitCheck,
): AppliedLimit | undefined {
  if (limit === undefined || duration === undefined) return undefined;
  const bucket = bucketOf(owner, name);
  const shown = limitNameInResult(name);
  const id = `rl_${shortDigest(bucketOf(keyId, name))}`;
  return {
    bucket,
    limit,
    duration,
    cost,
    id,
    name: shown,
    autoApply: false,
    workspaceId,
    shard,
    isAdHoc: true,
    hint: undefined,
    configured: undefined,
  };
}

/** A requested limit's name as a result shows it: its first 128 code points. */
export function limitNameInResult(name: string): string {
  return name.length <= NAME_LENGTH ? name : [...name].slice(0, NAME_LENGTH).join("");
}

/** The name of the bucket of a limit of a key or an identity. */
export function bucketOf(owner: string, name: string): string {
  return `${owner} ${name}`;
}

function clamp(value: number, min: number, max: number): number {
  return value < min ? min : value > max ? max : value;
}
