/** Results of a verification: the response, and the event for analytics. Contract 2.2. */
import type { CachedKey } from "../cache/cached-key.js";
import type {
  UnknownKey,
  V2KeysVerifyKeyResponseData,
  VerificationCode,
  VerificationResult,
  VerifyKeyRatelimitData,
} from "../contracts/types.js";
import type { OutcomeEvent } from "./outcome-events.js";

/**
 * Builds every response for a key that was found. A property that does not apply is absent.
 * @param meta as the result shows it; `undefined`: none
 * @param queried whether a permission query was evaluated: then the response lists the key's roles, and its permissions
 *   unless they are too long
 * @param credits the balance; `undefined`: unlimited
 * @param ratelimits `undefined`: no limit was checked
 */
export function answerFor(
  key: CachedKey,
  code: VerificationCode,
  meta: unknown,
  queried: boolean,
  credits: number | undefined,
  ratelimits: VerifyKeyRatelimitData[] | undefined,
): VerificationResult<unknown> {
  const { name, expires, rare, policy } = key;
  const response: V2KeysVerifyKeyResponseData<unknown> = {
    valid: code === "VALID",
    code,
    keyId: key.keyId,
    enabled: policy.enabled,
  };
  if (name !== undefined) response.name = name;
  if (meta !== undefined) response.meta = meta;
  if (expires !== undefined) response.expires = expires;
  if (credits !== undefined) response.credits = credits;
  if (queried || code === "FORBIDDEN") {
    const permissions = policy.grants.copyPermissions();
    if (permissions !== undefined) response.permissions = permissions;
  }
  if (queried) response.roles = policy.grants.copyRoles();
  if (rare.identity !== undefined) response.identity = rare.identity;
  if (ratelimits !== undefined) response.ratelimits = ratelimits;
  return response as VerificationResult<unknown>;
}

/** Only `valid` and `code`: a hidden key looks like one that does not exist (contract 4.1-3). */
export function answerNotFound(): UnknownKey {
  return { valid: false, code: "NOT_FOUND" };
}

/** The analytics event of a verification whose key was found. */
export function eventFor(
  { keyId, policy, rare }: CachedKey,
  code: VerificationCode,
  call: Omit<OutcomeEvent, "code" | "keyId" | "apiId" | "workspaceId" | "identityId" | "externalId">,
): OutcomeEvent {
  return {
    time: call.time,
    code,
    tags: call.tags,
    keyId,
    apiId: policy.apiId,
    workspaceId: policy.workspaceId,
    ...(rare.identity !== undefined && { identityId: rare.identity.id, externalId: rare.identity.externalId }),
    spent: call.spent,
    ...(call.reserved !== undefined && { reserved: call.reserved }),
    ...(call.remaining !== undefined && { remaining: call.remaining }),
    duration: call.duration,
    degraded: call.degraded,
    ...(call.displacedBuckets !== undefined && { displacedBuckets: call.displacedBuckets }),
    ...(call.forfeitedRefills !== undefined && { forfeitedRefills: call.forfeitedRefills }),
  };
}
