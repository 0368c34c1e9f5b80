/** The header `Idempotency-Key`, as the IETF's draft-ietf-httpapi-idempotency-key-header has it. */
import { badRequest, type KeystileError } from "../contracts/errors.js";

/** A string of structured fields (RFC 8941, section 3.3.3), without parameters. */
const STRING = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/;
/** What many clients send: the same without quotes, where nothing in it could end or part a value. */
const BARE = /^[!#-+\--:<-[\]-~]+$/;
/** 255 characters, each with a backslash, and the quotes. */
const MAX_LENGTH = 512;

/** The header's name, as documents and problems write it. */
export const IDEMPOTENCY_KEY = "Idempotency-Key";

/** The header in the documents of an operation that takes it. @param effect what a repeat does not do, in words */
export const documentKey = (effect: string) => ({
  [IDEMPOTENCY_KEY]: {
    type: "string" as const,
    minLength: 1,
    maxLength: MAX_LENGTH,
    description:
      'A structured-field string such as "8e03978e-40d5-43dd-bc93-6894a57f9324", with or without its quotes: a repeat ' +
      `of the same key and body ${effect}.`,
  },
});

/**
 * Refuses the header where it would be ignored: a repeat would act again, although its client says that it must not.
 * @param headers those that the operation documents
 * @param sent the header's value, if it was sent
 * @throws KeystileError BAD_REQUEST at `headers.Idempotency-Key`
 */
export function requireTaken(headers: object | undefined, sent: string | undefined): void {
  if (sent === undefined || (headers !== undefined && IDEMPOTENCY_KEY in headers)) return;
  const message = "is not taken by this operation";
  throw badRequest([{ location: `headers.${IDEMPOTENCY_KEY}`, message, fix: "leave it out: a repeat acts again" }]);
}

/**
 * The key that a header has. The same with and without quotes.
 * @param header its value; several headers are joined with a comma, and are refused
 * @throws KeystileError BAD_REQUEST at `headers.Idempotency-Key`
 */
export function readIdempotencyKey(header: string): string {
  const value = header.length > MAX_LENGTH ? "" : header.trim();
  const quoted = STRING.exec(value)?.[1]?.replace(/\\(["\\])/g, "$1");
  const key = quoted ?? (BARE.test(value) ? value : "");
  if (key === "" || key.length > 255) throw malformed();
  return key;
}

const malformed = (): KeystileError =>
  badRequest([
    {
      location: `headers.${IDEMPOTENCY_KEY}`,
      message: "must be one string of 1 to 255 characters of printable ASCII",
      fix: 'send a UUID in quotes: "8e03978e-40d5-43dd-bc93-6894a57f9324"',
    },
  ]);
