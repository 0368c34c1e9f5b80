/** The end of a verification: its response, its outcome event and its count. Contract 2.2. */
import type { CachedKey } from "../cache/cached-key.js";
import type {
  UnknownKey,
  V2KeysVerifyKeyResponseData,
  VerificationCode,
  VerificationResult,
} from "../contracts/types.js";
import { untilRefilled } from "../credits/refill-calendar.js";
import { untilCovered } from "../credits/wait.js";
import { inDrawOrder } from "../credits/wallet.js";
import { DEFAULT_WORKSPACE } from "../lib/check-options.js";
import type { Verification } from "./call.js";
import { type OutcomeEvent, redact } from "./outcome-events.js";
import { createPermissionCheck } from "./parse-permission-query.js";
import { refusalOf } from "./refusals.js";
import { keepRetryAfter } from "./result-retry-after.js";

/** Ends a call whose key was found. */
export function conclude(call: Verification, key: CachedKey, code: VerificationCode): VerificationResult<unknown> {
  const { deps, now } = call;
  deps.usage.note(key, call.key, now);
  const response = new Result(call, key, code);
  if (code === "RATE_LIMITED") keepRetryAfter(response, whileValid(key, now, call.limitsNote?.retryAfter));
  else if (code === "USAGE_EXCEEDED") keepRetryAfter(response, whileValid(key, now, untilRefill(call, key)));
  call.context.tellPermissions?.(createPermissionCheck(deps.compileQuery, key.policy.grants), key.policy.grants);
  const { onOutcome, counter } = deps;
  if (onOutcome === undefined && counter === undefined) return response;
  const taken = code === "VALID" && key.policy.hasCredits && call.once?.isRepeat !== true ? call.cost : 0;
  const spent = call.context.timeout === undefined ? taken : 0;
  counter?.count(key, code, spent, call);
  if (code !== "VALID") counter?.noteRefusal?.(key, refusalOf(call, key, code));
  onOutcome?.(eventOf(call, key, { code, spent, ...(taken > spent && { reserved: taken }) }));
  return response;
}

/** Ends a call whose key does not exist or is not visible to the caller. */
export function notFound(call: Verification): UnknownKey {
  const { deps, tags, key, context, now, began } = call;
  const { onOutcome, counter, sources } = deps;
  counter?.countUnknown(context.caller?.workspaceId ?? sources.workspaceId ?? DEFAULT_WORKSPACE, call);
  if (onOutcome !== undefined) {
    const duration = performance.now() - began;
    onOutcome({ time: now, code: "NOT_FOUND", tags: redact(tags, key), spent: 0, duration, degraded: false });
  }
  // Only `valid` and `code`: a hidden key looks like one that does not exist (contract 4.1-3).
  return { valid: false, code: "NOT_FOUND" };
}

/** Milliseconds until the refill that would cover the call; undefined: there is none. */
function untilRefill({ cost, now, spend }: Verification, { refill, wallets }: CachedKey): number | undefined {
  const { remaining, balances } = spend ?? {};
  if (wallets === undefined)
    return typeof remaining === "number" ? untilRefilled(refill, { remaining, cost }, now) : undefined;
  const limited = balances?.flatMap((left, i) => {
    const accounts = inDrawOrder(wallets[i]?.accounts ?? [], now);
    return left.includes(null) ? [] : [accounts.map((one, j) => ({ ...one, remaining: left[j] as number }))];
  });
  return limited && untilCovered(limited, cost, now);
}

/** A wait that ends while the key is valid; undefined: it will have expired. */
function whileValid({ expires, rare }: CachedKey, now: number, wait: number | undefined): number | undefined {
  const end = Math.min(expires ?? Infinity, rare.ownerExpires ?? Infinity);
  return wait !== undefined && now + wait <= end ? wait : undefined;
}

type Result = V2KeysVerifyKeyResponseData<unknown>;

/**
 * Builds every response for a key that was found. A property that does not apply is absent. After a query it lists the
 * key's roles; after a query and with FORBIDDEN also its permissions, unless they are too long.
 *
 * Why a constructor: the object has space for all of these properties. What is added to a literal goes to another
 * object: 50 to 80 bytes a call. The prototype is that of a literal.
 */
const Result = function (this: Result, call: Verification, key: CachedKey, code: VerificationCode) {
  const { meta, queried, limits, spend } = call;
  const { name, expires, rare, policy } = key;
  const credits = spend?.remaining ?? undefined;
  this.valid = code === "VALID";
  this.code = code;
  this.keyId = key.keyId;
  this.enabled = policy.enabled;
  if (name !== undefined) this.name = name;
  if (meta !== undefined) this.meta = meta;
  if (expires !== undefined) this.expires = expires;
  if (credits !== undefined) this.credits = credits;
  if (queried || code === "FORBIDDEN") {
    const { permissions } = policy.grants;
    if (permissions !== undefined) this.permissions = permissions.slice();
  }
  if (queried) this.roles = policy.grants.roles.slice();
  if (rare.identity !== undefined) this.identity = rare.identity;
  if (limits !== undefined) this.ratelimits = limits;
} as unknown as new (call: Verification, key: CachedKey, code: VerificationCode) => VerificationResult<unknown>;
Result.prototype = Object.prototype as VerificationResult<unknown>;

/** The event of a verification whose key was found. */
function eventOf(
  { key, tags, now, began, limitsNote, spend }: Verification,
  { keyId, policy, rare, wallets }: CachedKey,
  outcome: Pick<OutcomeEvent, "code" | "spent" | "reserved">,
): OutcomeEvent {
  const remaining = spend?.remaining ?? undefined;
  return {
    time: now,
    tags: redact(tags, key),
    keyId,
    apiId: policy.apiId,
    workspaceId: policy.workspaceId,
    ...(rare.identity !== undefined && { identityId: rare.identity.id, externalId: rare.identity.externalId }),
    ...outcome,
    ...(remaining !== undefined && { remaining }),
    ...(spend?.least !== undefined && { decidedBy: wallets?.[spend.least]?.owner }),
    duration: performance.now() - began,
    degraded: limitsNote?.degraded === true,
    ...(limitsNote?.displaced !== undefined && { displacedBuckets: limitsNote.displaced }),
    ...(spend?.forfeited !== undefined && { forfeitedRefills: spend.forfeited }),
  };
}
