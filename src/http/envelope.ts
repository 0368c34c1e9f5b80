/** Answers as text: the envelope of spec §1, the error objects of §2.4 with their content types (§7). Knows no route. */
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import type { Outgoing } from "./messages.js";

/** Of every answer but one. */
export const JSON_TYPE = "application/json";
/** 429 alone has a type of its own (spec §7). */
export const PROBLEM_TYPE = "application/problem+json";
/** Seconds after which a service that is busy may be asked again. */
const BUSY_SECONDS = "1";

/** Headers of every answer of the interface: nothing of it may be kept by anyone between. */
const headersOf = (type: string, requestId: string, more: readonly string[]): readonly string[] => {
  const headers = [
    "content-type",
    type,
    "cache-control",
    "no-store",
    "x-content-type-options",
    "nosniff",
    "x-request-id",
    requestId,
  ];
  for (const part of more) headers.push(part);
  return headers;
};

/**
 * A success.
 * @param data what an operation answered
 * @param headers names and values in turn, besides those of every answer
 */
export function toSuccess(requestId: string, data: unknown, headers: readonly string[]): Outgoing {
  const text = `{"meta":{"requestId":"${requestId}"},"data":${toJson(data)}}`;
  return { status: 200, headers: headersOf(JSON_TYPE, requestId, headers), text };
}

/** A page of a list (spec §1-2). */
export function toPage(
  requestId: string,
  page: { readonly data: unknown; readonly pagination: unknown },
  headers: readonly string[],
): Outgoing {
  const text = `{"meta":{"requestId":"${requestId}"},"data":${toJson(page.data)},"pagination":${toJson(page.pagination)}}`;
  return { status: 200, headers: headersOf(JSON_TYPE, requestId, headers), text };
}

/** All that clients learn of a fault of the server: its own text may name files or queries. */
const FAULT = "an unexpected fault of the server; a retry may succeed, and support finds the cause by the requestId";
const BUSY = "the service cannot answer at the moment; try again";

/** What of an error is sent. */
export type SentError = Pick<KeystileError, "code" | "title" | "detail" | "status" | "type" | "errors">;

/** What a thrown value is to the client: a fault of its own as it stands, anything else a bare 5xx. */
export function toSentError(thrown: unknown): SentError {
  if (!isKeystileError(thrown)) return new KeystileError("INTERNAL", FAULT);
  if (thrown.status < 500) return thrown;
  const { code, title, status, type } = thrown;
  return { code, title, status, type, errors: [], detail: status === 503 ? BUSY : FAULT };
}

/**
 * An error (spec §2.4).
 * @param docsBase absolute, without a slash at its end: `type` is a page below it (ruling G3)
 * @param headers names and values in turn, besides those that the status asks for
 */
export function toFailure(requestId: string, error: SentError, docsBase: string, headers: readonly string[]): Outgoing {
  const { title, detail, status, errors } = error;
  const type = `${docsBase}/errors/${error.type}`;
  const body = { meta: { requestId }, error: { title, detail, status, type, ...(status === 400 && { errors }) } };
  const more = [...headers];
  if (status === 401) more.push("www-authenticate", "Bearer");
  if (status === 503) more.push("retry-after", BUSY_SECONDS);
  return {
    status,
    headers: headersOf(status === 429 ? PROBLEM_TYPE : JSON_TYPE, requestId, more),
    text: JSON.stringify(body),
  };
}

/** `undefined` has no JSON; an operation without anything to say answers an empty object. */
function toJson(value: unknown): string {
  return value === undefined ? "{}" : JSON.stringify(value);
}
