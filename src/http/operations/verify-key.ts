/**
 * Operation `keys.verifyKey` (spec §4.1). The schema here is for documentation: `src/verify/request.ts` validates
 * requests, hand-written for speed, and a test checks that the two agree.
 */
import { compileQuery } from "../../access/permission-query.js";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import { readRequest } from "../../verify/request.js";
import { readIdempotencyKey } from "../idempotency-key.js";
import { keyForms, requireAnyGrant } from "./access.js";
import { explain } from "./fields.js";
import { bodyBytesOf, bodyShapeOf } from "./largest-body.js";
import type { Operation } from "./operation.js";
import * as answer from "./responses.js";

const count: JsonSchema = { type: "integer", format: "int64", minimum: 0, maximum: Number.MAX_SAFE_INTEGER };

const ratelimit: JsonSchema = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 3, maxLength: 255, description: "A limit of the key or its identity." },
    cost: { ...count, default: 1 },
    limit: { ...count, description: "Overrides the tokens of a window." },
    duration: { ...count, description: "Overrides the window, milliseconds." },
  },
  required: ["name"],
  additionalProperties: false,
};

const cost: JsonSchema = { ...count, maximum: 1_000_000_000_000 };

const request: JsonSchema = {
  type: "object",
  properties: {
    key: { type: "string", minLength: 1, maxLength: 512, description: "The key exactly as the user sent it." },
    tags: { type: "array", maxItems: 20, items: { type: "string", minLength: 1, maxLength: 512 } },
    permissions: {
      type: "string",
      minLength: 1,
      maxLength: 1_000,
      description: "A permission query: names, AND, OR and parentheses, such as `documents.read AND (a OR b)`.",
    },
    credits: {
      type: "object",
      properties: { cost },
      required: ["cost"],
      additionalProperties: false,
      description: "Absent: a cost of 1.",
    },
    ratelimits: {
      type: "array",
      maxItems: 1_000,
      items: ratelimit,
      description: "Limits to check besides the automatic ones.",
    },
    migrationId: { type: "string", maxLength: 256, description: "Where a key unknown so far may have been imported." },
  },
  required: ["key"],
  additionalProperties: false,
};

const access = { action: "verify_key", type: "api", permissions: keyForms("verify_key") } as const;

/** Every outcome is a 200. The verifier decides whether the caller may see the key (spec §4.1-3, §4.1-4). */
export const verifyKey: Operation = {
  name: "keys.verifyKey",
  summary: "Verifies a key: permissions, rate limits and credits in one call. Every outcome is a 200.",
  request: explain(request),
  bodyBytes: bodyBytesOf(request),
  bodyShape: bodyShapeOf(request),
  answer: explain(answer.verification),
  isList: false,
  permissions: access.permissions,
  also: [],
  headers: {
    "Idempotency-Key": {
      type: "string",
      minLength: 1,
      maxLength: 512,
      description:
        'A structured-field string such as "8e03978e-40d5-43dd-bc93-6894a57f9324", with or without its quotes: a repeat ' +
        "of the same key and body takes no credits or tokens again, for a day unless the service says otherwise.",
    },
  },
  statuses: [404, 409, 422],
  mayAny: (caller) => caller.mayAny(access.action, access.type),
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
