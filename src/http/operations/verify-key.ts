/** Operation `keys.verifyKey` (spec §4.1). */
import { compileQuery } from "../../access/permission-query.js";
import { readRequest, REQUEST_SCHEMA } from "../../verify/request.js";
import { readIdempotencyKey } from "../idempotency-key.js";
import { keyForms, requireAnyGrant } from "./access.js";
import { explain } from "./fields.js";
import { bodyBytesOf, bodyShapeOf } from "./largest-body.js";
import type { Operation } from "./operation.js";
import * as answer from "./responses.js";

const access = { action: "verify_key", type: "api", permissions: keyForms("verify_key") } as const;

/** Every outcome is a 200. The verifier decides whether the caller may see the key (spec §4.1-3, §4.1-4). */
export const verifyKey: Operation = {
  name: "keys.verifyKey",
  summary: "Verifies a key: permissions, rate limits and credits in one call. Every outcome is a 200.",
  request: explain(REQUEST_SCHEMA),
  bodyBytes: bodyBytesOf(REQUEST_SCHEMA),
  bodyShape: bodyShapeOf(REQUEST_SCHEMA),
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
