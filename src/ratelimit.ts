/** Which rate limits apply to a call, and how their results read. Spec §2.1, §2.2, rulings C1, C4, C5. Knows nothing of buckets. */
import { badRequest, type ValidationProblem } from "./errors.js";
import { shortDigest } from "./hash.js";
import type { LimitCheck, LimitVerdict } from "./limiter.js";
import type { RatelimitCheck } from "./request.js";
import type { KeyRecord } from "./store.js";
import type { Identity, RatelimitResponse, VerifyKeyRatelimitData } from "./types.js";

/** Bounds of results (spec §8); decisions use the values as given. */
const LIMIT = { min: 1, max: 1_000_000 };
const DURATION = { min: 1_000, max: 2_592_000_000 };
const NAME_LENGTH = 128;

/** A limit that applies to a call: what to ask of the limiter, and how to show the answer. */
export interface AppliedLimit extends LimitCheck {
  readonly id: string;
  readonly name: string;
  readonly autoApply: boolean;
}

/** The limits of one key, its identity's included, ready to be applied to any call. */
export interface Limits {
  readonly keyId: string;
  /** Those checked without being asked for, at cost 1. */
  readonly automatic: readonly AppliedLimit[];
  /** The only one of them. */
  readonly lone: AppliedLimit | undefined;
  /** These and those checked only when named; one per name. Few, so they are searched one by one. */
  readonly named: readonly AppliedLimit[];
}

/** Gathers the limits of a key: one per name, key over identity (ruling C1). Done once a record. */
export function limitsOf({ keyId, ratelimits, identity }: KeyRecord): Limits {
  const own = ratelimits.map((limit) => toApplied(keyId, limit, limit.id));
  const shared = identity?.ratelimits?.filter(({ name }) => !ratelimits.some((limit) => limit.name === name)) ?? [];
  const named = shared.length === 0 ? own : [...own, ...shared.map((limit) => toApplied((identity as Identity).id, limit, limit.id))];
  return toLimits(keyId, named);
}

/** What limits of one form have in common. */
export type LimitKind = Omit<RatelimitResponse, "id">;

/** The limits of a key from their kinds and ids, as {@link limitsOf} gathers them for a key without shared ones. */
export function ownLimits(keyId: string, kinds: readonly LimitKind[], ids: readonly string[]): Limits {
  return toLimits(
    keyId,
    kinds.map((kind, i) => toApplied(keyId, kind, ids[i] as string)),
  );
}

function toLimits(keyId: string, named: readonly AppliedLimit[]): Limits {
  const automatic = named.every(isAutomatic) ? named : named.filter(isAutomatic);
  return { keyId, automatic, lone: automatic.length === 1 ? automatic[0] : undefined, named };
}

function toApplied(owner: string, { name, limit, duration, autoApply }: LimitKind, id: string): AppliedLimit {
  return {
    bucket: bucketOf(owner, name),
    limit,
    duration,
    cost: 1,
    id,
    name,
    autoApply,
    memo: -1,
    memoOne: 0,
    memoTwo: 0,
    memoOf: undefined,
  };
}

const isAutomatic = ({ autoApply }: AppliedLimit) => autoApply;

/**
 * The limits that apply to one call: the automatic ones that the request does not name, then the request's in its order.
 * @throws VerifierError BAD_REQUEST at `body.ratelimits[i].name` for a name that no limit has, unless both `limit` and `duration`
 * are given (ruling C5); the message lists no names
 */
export function applyLimits(key: Limits, requested: readonly RatelimitCheck[]): readonly AppliedLimit[] {
  if (requested.length === 0) return key.automatic;
  const named = new Set<string>();
  for (const { name } of requested) named.add(name);
  const applied = key.automatic.filter(({ name }) => !named.has(name));
  const problems: ValidationProblem[] = [];
  requested.forEach((check, i) => {
    const limit = key.named.find(({ name }) => name === check.name) ?? adHoc(key.keyId, check);
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

/** The result of one check as answers show it: numbers brought into the schema's bounds (ruling C4). */
export function toRatelimitData({ id, name, autoApply, limit, duration }: AppliedLimit, verdict: LimitVerdict): VerifyKeyRatelimitData {
  return {
    exceeded: verdict.exceeded,
    id,
    name,
    limit: bring(limit, LIMIT.min, LIMIT.max),
    duration: bring(duration, DURATION.min, DURATION.max),
    reset: bring(verdict.reset, DURATION.min, DURATION.max),
    remaining: bring(verdict.remaining, 0, LIMIT.max),
    autoApply,
  };
}

/** A limit as answers show it where nothing is checked. */
export function toRatelimitResponse({ id, name, limit, duration, autoApply }: RatelimitResponse): RatelimitResponse {
  return {
    id,
    name,
    limit: bring(limit, LIMIT.min, LIMIT.max),
    duration: bring(duration, DURATION.min, DURATION.max),
    autoApply,
  };
}

function override(known: AppliedLimit, { cost, limit, duration }: RatelimitCheck): AppliedLimit {
  const { bucket, id, name, autoApply, memo, memoOne, memoTwo, memoOf } = known;
  return {
    bucket,
    limit: limit ?? known.limit,
    duration: duration ?? known.duration,
    cost,
    id,
    name,
    autoApply,
    memo,
    memoOne,
    memoTwo,
    memoOf,
  };
}

/** A limit that exists by this request alone. Its name is cut for answers: requests allow 255, results 128 (spec §8). */
function adHoc(keyId: string, { name, limit, duration, cost }: RatelimitCheck): AppliedLimit | undefined {
  if (limit === undefined || duration === undefined) return undefined;
  const bucket = bucketOf(keyId, name);
  const shown = name.length <= NAME_LENGTH ? name : [...name].slice(0, NAME_LENGTH).join("");
  const id = `rl_${shortDigest(bucket)}`;
  return { bucket, limit, duration, cost, id, name: shown, autoApply: false, memo: -1, memoOne: 0, memoTwo: 0, memoOf: undefined };
}

const bucketOf = (owner: string, name: string) => `${owner} ${name}`;

function bring(value: number, min: number, max: number): number {
  return value < min ? min : value > max ? max : value;
}
