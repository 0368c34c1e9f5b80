/** Operation `keys.verifyKey` (contract 4.1). */
import type { V2KeysVerifyKeyResponseData, VerificationCode, VerifyKeyRatelimitData } from "../../contracts/types.js";
import { compileQuery } from "../../access/permission-query.js";
import { readRequest, REQUEST_SCHEMA } from "../../verify/request.js";
import { documentKey, readIdempotencyKey } from "../idempotency-key.js";
import { keyForms, requireAnyGrant } from "./access.js";
import { describe, type Operation } from "./operation.js";
import { arrayOf, flag, free, integer, limit, object, owner, text, texts, time } from "./responses.js";

const access = { action: "verify_key", type: "api", permissions: keyForms("verify_key") } as const;

/** A record, so that the compiler reports missing and extra codes. */
export const CODES = Object.keys({
  VALID: true,
  NOT_FOUND: true,
  FORBIDDEN: true,
  INSUFFICIENT_PERMISSIONS: true,
  USAGE_EXCEEDED: true,
  RATE_LIMITED: true,
  DISABLED: true,
  EXPIRED: true,
} satisfies Record<VerificationCode, true>);
/** Contract 2.2; `code` may gain values in time, and clients must tolerate them. */
const verification = object<V2KeysVerifyKeyResponseData>(
  { valid: flag, code: { type: "string", enum: CODES } },
  {
    keyId: text,
    name: text,
    meta: free,
    expires: time,
    credits: { ...integer(0), description: "Credits left after this call; absent: unlimited." },
    enabled: flag,
    permissions: texts,
    roles: texts,
    identity: owner,
    ratelimits: arrayOf(
      object<VerifyKeyRatelimitData>({
        exceeded: flag,
        ...limit,
        reset: integer(1_000, 2_592_000_000),
        remaining: integer(0, 1_000_000),
      }),
    ),
  },
);

/** Every outcome is a 200. The verifier decides whether the caller may see the key (contract 4.1-3, 4.1-4). */
export const verifyKey: Operation = {
  ...describe("keys.verifyKey", REQUEST_SCHEMA, {
    summary: "Verifies a key: permissions, rate limits and credits in one call. Every outcome is a 200.",
    answer: verification,
    access,
    statuses: [404, 409, 422],
  }),
  headers: documentKey("takes no credits or tokens again, for a day unless the service says otherwise"),
  validate(body) {
    const { permissions } = readRequest(body);
    if (permissions !== undefined) compileQuery(permissions);
  },
  perform({ verifier }, { body, caller, clientAddress, header }) {
    // The verifier asks this too, but by then the header has been validated.
    requireAnyGrant(access, caller);
    // Not validated here: the verifier does.
    const request = body as Parameters<typeof verifier.verify>[0];
    const sent = header("idempotency-key");
    if (sent !== undefined)
      return verifier.verify(request, { caller, clientAddress, idempotencyKey: readIdempotencyKey(sent) });
    return verifier.verify(request, clientAddress === undefined ? { caller } : { caller, clientAddress });
  },
};
