/** Operation `keys.explainKey`: a dry run of a verification, for administrators. An addition of keystile. */
import { CREDITS_SOURCES } from "../../lib/credits-source.js";
import { badRequest } from "../../contracts/errors.js";
import { hasLength, isObject } from "../../lib/copy-json.js";
import { type Explanation, explain, type ExplainRequest, validateExplained } from "../../verify/explain.js";
import { REQUEST_SCHEMA } from "../../verify/request.js";
import type { ExplainedAccount, ExplainedCheck, ExplainedLimit } from "../../verify/explained-check.js";
import { onKey, requireAnyGrant } from "./access.js";
import { describe, type Operation } from "./operation.js";
import { arrayOf, flag, integer, limit, object, text, texts, time } from "./responses.js";
import { CODES } from "./verify-key.js";

const access = onKey("read_key");

const { permissions, credits, ratelimits } = REQUEST_SCHEMA.properties;
const MAX_ADDRESS = 255;
const request = {
  type: "object",
  properties: {
    keyId: { type: "string", minLength: 1, maxLength: 255 },
    permissions,
    credits,
    ratelimits,
    clientAddress: { type: "string", minLength: 1, maxLength: MAX_ADDRESS },
  },
  required: ["keyId"],
  additionalProperties: false,
} as const;

type AllKeys<T> = T extends unknown ? keyof T : never;
type Common = "code" | "passes";
/** What any check may tell. */
type AnyCheck = Pick<ExplainedCheck, Common> & { readonly [K in Exclude<AllKeys<ExplainedCheck>, Common>]?: unknown };

const owner = { type: "string", enum: ["key", "identity"] } as const;
const check = object<AnyCheck>(
  { code: { type: "string", enum: CODES }, passes: flag },
  {
    expires: time,
    ownerExpires: time,
    parentDisabled: flag,
    ownerDisabled: flag,
    addressAllowed: flag,
    has: texts,
    missing: texts,
    limits: arrayOf(
      object<ExplainedLimit>({
        ...limit,
        exceeded: flag,
        cost: integer(0),
        reset: integer(1_000, 2_592_000_000),
        remaining: integer(0, 1_000_000),
      }),
    ),
    retryAfter: integer(0),
    degraded: flag,
    cost: integer(0),
    creditsFrom: { type: "string", enum: [...CREDITS_SOURCES] },
    remaining: integer(0),
    decidedBy: owner,
    accounts: arrayOf(
      object<ExplainedAccount>(
        { owner, remaining: { type: ["integer", "null"], minimum: 0 } },
        { grantId: text, expires: time },
      ),
    ),
  },
);

/** @throws KeystileError BAD_REQUEST · PERMISSIONS_QUERY_SYNTAX */
function read(body: unknown) {
  if (!isObject(body)) throw badRequest([{ location: "body", message: "must be an object" }]);
  const { clientAddress, ...rest } = body;
  // The text of a key has no place in a console; labels of a call change nothing.
  for (const name of ["key", "tags", "migrationId"])
    if (Object.hasOwn(rest, name)) throw badRequest([{ location: `body.${name}`, message: "must be left out" }]);
  const request = { keyId: undefined, ...rest } as unknown as ExplainRequest & { readonly keyId: string };
  validateExplained(request);
  if (clientAddress === undefined) return { request, context: {} };
  if (typeof clientAddress !== "string" || !hasLength(clientAddress, 1, MAX_ADDRESS)) {
    const message = `must be an address, as text of 1 to ${MAX_ADDRESS} characters`;
    throw badRequest([{ location: "body.clientAddress", message }]);
  }
  return { request, context: { clientAddress } };
}

export const explainKey: Operation = {
  ...describe("keys.explainKey", request, {
    summary: "Tells what a verification of a key would return now, and what each check finds. Takes nothing.",
    answer: object<Explanation>(
      { passes: flag, checks: arrayOf(check) },
      {
        ...{ refusal: { type: "string", enum: CODES }, keyId: text, apiId: text },
        ...{ deleted: flag, deletedAt: time, deletedBy: text },
      },
    ),
    access,
  }),
  validate: (body) => void read(body),
  async perform(services, { body, caller }) {
    requireAnyGrant(access, caller);
    const { request, context } = read(body);
    await access.allow(services, caller, request);
    return explain(services.verifier, request, context);
  },
};
