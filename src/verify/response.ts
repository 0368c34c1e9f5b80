/** What is told of a verification whose key was found: the answer, and the event for analytics. Spec §2.2, ruling A8. Decides nothing. */
import type { CachedKey } from "../cache/cached-key.js";
import type { V2KeysVerifyKeyResponseData, VerificationCode, VerifyKeyRatelimitData } from "../contracts/types.js";
import type { OutcomeEvent } from "./outcome-events.js";

/** What a verification found out besides its code. */
export interface Findings {
  /** Whether permissions were asked for: then the answer lists what the key has. */
  readonly queried: boolean;
  /** The balance; `undefined`: unlimited. */
  readonly credits: number | undefined;
  /** `undefined`: no limit was asked. */
  readonly ratelimits: VerifyKeyRatelimitData[] | undefined;
}

/** The one builder of answers: a property that does not apply is not there (ruling A5). */
export function answerFor(
  key: CachedKey,
  code: VerificationCode,
  { queried, credits, ratelimits }: Findings,
): V2KeysVerifyKeyResponseData {
  const { name, expires, rare, grants } = key;
  const answer: V2KeysVerifyKeyResponseData = { valid: code === "VALID", code, keyId: key.keyId, enabled: key.enabled };
  if (name !== undefined) answer.name = name;
  if (rare?.meta !== undefined) answer.meta = rare.meta;
  if (expires !== undefined) answer.expires = expires;
  if (credits !== undefined) answer.credits = credits;
  if (queried || code === "FORBIDDEN") answer.permissions = grants.copyPermissions();
  if (queried) answer.roles = grants.copyRoles();
  if (rare?.identity !== undefined) answer.identity = rare.identity;
  if (ratelimits !== undefined) answer.ratelimits = ratelimits;
  return answer;
}

/** Nothing but `valid` and `code`: what is hidden looks like what does not exist (ruling A5, spec §4.1-3). */
export function answerNotFound(
  onOutcome: ((event: OutcomeEvent) => void) | undefined,
  time: number,
  tags: readonly string[],
): V2KeysVerifyKeyResponseData {
  onOutcome?.({ time, code: "NOT_FOUND", tags, spent: 0, degraded: false });
  return { valid: false, code: "NOT_FOUND" };
}

/** The event: what the key and the call know. */
export function eventFor(
  { keyId, policy, rare }: CachedKey,
  code: VerificationCode,
  call: Pick<OutcomeEvent, "time" | "tags" | "degraded" | "forfeitedRefills"> & { readonly cost: number },
): OutcomeEvent {
  return {
    time: call.time,
    code,
    tags: call.tags,
    keyId,
    apiId: policy.apiId,
    workspaceId: policy.workspaceId,
    ...(rare?.identity !== undefined && { identityId: rare.identity.id }),
    spent: code === "VALID" && policy.hasCredits ? call.cost : 0,
    degraded: call.degraded,
    ...(call.forfeitedRefills !== undefined && { forfeitedRefills: call.forfeitedRefills }),
  };
}
