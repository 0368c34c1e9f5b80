/** Response envelopes: success and pages (contract 1), errors (contract 2.4) with their content types (contract 7). */
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import type { Hold } from "./admission/admission.js";
import type { Outgoing } from "./messages.js";

/** Content type of every response except 429. */
export const JSON_TYPE = "application/json";
/** Content type of a 429 (contract 7). */
export const PROBLEM_TYPE = "application/problem+json";
/** `retry-after` of a 503, seconds. */
const BUSY_SECONDS = "1";

/** Headers of every response. No proxy may cache it. */
const headersOf = (type: string, requestId: string, more: readonly string[]): readonly string[] => {
  const headers = ["content-type", type, "cache-control", "no-store"];
  headers.push("x-content-type-options", "nosniff", "x-request-id", requestId);
  for (const part of more) headers.push(part);
  return headers;
};

/**
 * A success response.
 * @param data the result of an operation
 * @param headers alternating names and values, besides those of every response
 */
export function toSuccess(requestId: string, data: unknown, headers: readonly string[]): Outgoing {
  const text = `{"meta":{"requestId":"${requestId}"},"data":${toJson(data)}}`;
  return { status: 200, headers: headersOf(JSON_TYPE, requestId, headers), text };
}

/**
 * A page of a list (contract 1-2), or an answer as long as one, of which others get their turn after every 256 KiB.
 * @param hold whose account takes these turns
 */
export async function toPage(
  requestId: string,
  page: { readonly data: object; readonly pagination?: unknown },
  headers: readonly string[],
  hold: Hold,
): Promise<Outgoing> {
  const data = await toJsonInTurns(page.data, hold);
  const pagination = page.pagination === undefined ? "" : `,"pagination":${toJson(page.pagination)}`;
  const text = `{"meta":{"requestId":"${requestId}"},"data":${data}${pagination}}`;
  return { status: 200, headers: headersOf(JSON_TYPE, requestId, headers), text };
}

/** Characters of JSON that are written in one turn of the event loop: about a millisecond. */
const CHARACTERS_PER_TURN = 262_144;

/** Of a list its items by turns; of an object those of its lists. */
async function toJsonInTurns(data: object, hold: Hold): Promise<string> {
  if (!Array.isArray(data)) {
    const members: string[] = [];
    for (const [name, value] of Object.entries(data as Record<string, unknown>))
      members.push(`"${name}":${Array.isArray(value) ? await toJsonInTurns(value, hold) : toJson(value)}`);
    return `{${members.join(",")}}`;
  }
  let text = "";
  let written = 0;
  for (const item of data as readonly unknown[]) {
    text += `${text === "" ? "" : ","}${toJson(item)}`;
    if (text.length - written < CHARACTERS_PER_TURN) continue;
    written = text.length;
    await hold.turn(true);
  }
  return `[${text}]`;
}

/** All that clients learn of a server error: its own message may name files or queries. */
const FAULT = "an unexpected fault of the server; a retry may succeed, and support finds the cause by the requestId";
const BUSY = "the service cannot answer at the moment; try again";

/** The parts of an error that are sent. */
export type SentError = Pick<KeystileError, "code" | "title" | "detail" | "status" | "type" | "errors">;

/** A thrown value as the client sees it: a 4xx unchanged, anything else a generic 5xx. */
export function toSentError(thrown: unknown): SentError {
  if (!isKeystileError(thrown)) return new KeystileError("INTERNAL", FAULT);
  if (thrown.status < 500) return thrown;
  const { code, title, status, type } = thrown;
  return { code, title, status, type, errors: [], detail: status === 503 ? BUSY : FAULT };
}

/**
 * An error response (contract 2.4).
 * @param docsBase absolute URL or path, without a trailing slash; `type` is a page below it
 * @param headers alternating names and values, besides those that the status requires
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

/** `undefined` has no JSON form: an operation without a result returns an empty object. */
function toJson(value: unknown): string {
  return value === undefined ? "{}" : JSON.stringify(value);
}
