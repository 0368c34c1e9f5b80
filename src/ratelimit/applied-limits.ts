/** Which rate limits apply to a call. Contract 2.1. */
import { badRequest, type ValidationProblem } from "../contracts/errors.js";
import type { LimitCheck } from "../contracts/limiter.js";
import type { KeyRecord } from "../contracts/store.js";
import type { RatelimitResponse } from "../contracts/types.js";
import { ownProperty } from "../lib/check-options.js";
import { shortDigest } from "../lib/hash.js";
import { type KeptCheck, newPlace, type Place, PLACE } from "./memory/bucket-rows.js";

/** Code points of a name in a result (contract 8). */
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
export interface AppliedLimit extends LimitCheck, LimitKind {
  readonly id: string;
}

/** What the limits need of a key. */
export interface KeyLimits {
  readonly keyId: string;
  /** The key after which the buckets of its limits are named; another than itself for a key that replaced one. */
  readonly bucketOwner: string;
  readonly workspaceId: string;
  /** Of all its buckets: its identity's id, or else the owner's. */
  readonly shard: string;
  /**
   * All limits, including its identity's, at cost 1: the automatic ones and those checked only when named; one per
   * name.
   */
  readonly limits: readonly AppliedLimit[];
}

/** A key as it is remembered. It is also the place of its only limit's bucket. */
export interface LimitedKey extends KeyLimits, Place {
  /** Its own limit, if it has one alone and that is automatic. */
  readonly policy: { readonly onlyLimit: LimitKind | undefined };
  /** Its limits; if only one can apply, the id of that, since few calls need the list. */
  readonly limitsOrId: string | readonly AppliedLimit[];
}

/** The limits of an identity that apply to one of its keys: a limit of the key replaces one of the same name. */
export function sharedLimits(record: KeyRecord): readonly AppliedLimit[] | undefined {
  const { ratelimits, workspaceId } = record;
  const identity = ownProperty(record, "identity");
  const shared =
    (identity && ownProperty(identity, "ratelimits"))?.filter(
      ({ name }) => !ratelimits.some((limit) => limit.name === name),
    ) ?? [];
  if (identity === undefined || shared.length === 0) return undefined;
  const owner = { bucketOwner: identity.id, shard: identity.id, workspaceId };
  return shared.map((limit) => toApplied(owner, limit, { id: limit.id }));
}

/**
 * A limit of a key or an identity as a check.
 * @param id of the limit; `place` of its bucket, a new one by default
 */
export function toApplied(
  { bucketOwner, workspaceId, shard }: Pick<KeyLimits, "bucketOwner" | "workspaceId" | "shard">,
  configured: LimitKind,
  { id, place = newPlace() }: { readonly id: string; readonly place?: Place },
): AppliedLimit & KeptCheck {
  const { name, limit, duration, autoApply } = configured;
  return {
    [PLACE]: place,
    bucket: bucketOf(bucketOwner, name),
    limit,
    duration,
    cost: 1,
    configured,
    id,
    name,
    autoApply,
    workspaceId,
    shard,
    isAdHoc: undefined,
  };
}

/**
 * The limits that apply to one call: the automatic ones that the request does not name, then the requested ones in
 * their order.
 * @throws KeystileError BAD_REQUEST at `body.ratelimits[i].name` for a name that no limit has, unless both `limit` and
 *   `duration` are given; the message contains no names
 */
export function applyLimits(key: KeyLimits, requested: readonly RatelimitCheck[]): readonly AppliedLimit[] {
  const { limits } = key;
  if (requested.length === 0) {
    // The list itself, if all are automatic.
    for (const { autoApply } of limits) if (!autoApply) return limits.filter((limit) => limit.autoApply);
    return limits;
  }
  const named = new Map<string, AppliedLimit | undefined>();
  for (const { name } of requested) named.set(name, undefined);
  const applied: AppliedLimit[] = [];
  for (const limit of limits) {
    if (named.has(limit.name)) named.set(limit.name, limit);
    else if (limit.autoApply) applied.push(limit);
  }
  const problems: ValidationProblem[] = [];
  requested.forEach((check, i) => {
    const known = named.get(check.name);
    const limit = known === undefined ? adHoc(key, check) : override(known, check);
    if (limit === undefined) problems.push(unknownName(i));
    else applied.push(limit);
  });
  if (problems.length > 0) throw badRequest(problems);
  return applied;
}

function unknownName(i: number): ValidationProblem {
  return {
    location: `body.ratelimits[${i}].name`,
    message: "names no rate limit of this key",
    fix: "name an existing limit, or give both limit and duration",
  };
}

function override(
  known: AppliedLimit,
  { cost, limit = known.limit, duration = known.duration }: RatelimitCheck,
): AppliedLimit {
  const { bucket, id, name, autoApply, workspaceId, shard, isAdHoc, configured } = known;
  return { bucket, limit, duration, cost, id, name, autoApply, workspaceId, shard, isAdHoc, configured };
}

/**
 * A limit that exists only in this request. Its name is truncated for the response: requests allow 255 code points,
 * results 128 (contract 8).
 */
function adHoc(
  { keyId, bucketOwner: owner, workspaceId, shard }: KeyLimits,
  { name, limit, duration, cost }: RatelimitCheck,
): AppliedLimit | undefined {
  if (limit === undefined || duration === undefined) return undefined;
  const bucket = bucketOf(owner, name);
  return {
    bucket,
    limit,
    duration,
    cost,
    id: `rl_${shortDigest(owner === keyId ? bucket : bucketOf(keyId, name))}`,
    name: limitNameInResult(name),
    autoApply: false,
    workspaceId,
    shard,
    isAdHoc: true,
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
