/** Idempotency keys: their form, whose they are, and what stores record of them. Store clause 23. */
import type { Caller } from "../contracts/caller.js";
import { badRequest, KeystileError } from "../contracts/errors.js";
import type { Store } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import { requirePower } from "./guards/powers.js";
import { keyedDigest } from "./hash.js";

/** A structured-field string has these characters; 255 are enough for any id. */
const IDEMPOTENCY_KEY = /^[ -~]{1,255}$/;
const MAX_CALLER_LENGTH = 1_024;

/** Reads the secret of a store once. @returns makes keyed digests of texts with it. @throws STORE_POWER_MISSING */
export function createSigner(store: Pick<Store, "readSecret">): () => Promise<(text: string) => MaybePromise<string>> {
  let secret: string | undefined;
  return async () => {
    const known = (secret ??= await store.readSecret("idempotency"));
    return (text) => keyedDigest(known, text);
  };
}

/**
 * An idempotency key and its caller, as one text.
 * @param option where the key was given, for the message
 * @throws KeystileError BAD_REQUEST: the key is not 1 to 255 characters of printable ASCII · STORE_POWER_MISSING;
 *   TypeError: the key is no string, or the caller has no id
 */
export function scopeOf(
  store: Pick<Store, "powers">,
  idempotencyKey: unknown,
  caller: Caller | undefined,
  option: string,
): string {
  if (typeof idempotencyKey !== "string") throw new TypeError(`${option} must be a string`);
  if (!IDEMPOTENCY_KEY.test(idempotencyKey)) throw malformed();
  requirePower(store, "idempotency", option);
  return JSON.stringify([idempotencyKey, caller === undefined ? null : identify(caller)]);
}

/** @throws TypeError: the caller has no `id` that tells it from others of its workspace, or `kind` is not text */
function identify({ kind, id }: Caller): readonly unknown[] {
  if (typeof id !== "string" || id.length < 1 || id.length > MAX_CALLER_LENGTH)
    throw new TypeError("context.caller.id must be a string of 1 to 1024 characters where there is an idempotency key");
  if (kind !== undefined && typeof kind !== "string") throw new TypeError("context.caller.kind must be a string");
  return [kind ?? null, id];
}

const malformed = (): KeystileError =>
  badRequest([
    { location: "idempotencyKey", message: "must be 1 to 255 characters of printable ASCII", fix: "send a UUID" },
  ]);

/** IDEMPOTENCY_MISMATCH */
export const mismatch = (): KeystileError =>
  new KeystileError(
    "IDEMPOTENCY_MISMATCH",
    "the idempotency key was used with another body; take a new one for a new request",
  );

/** IDEMPOTENCY_FULL */
export const full = (): KeystileError =>
  new KeystileError(
    "IDEMPOTENCY_FULL",
    "the workspace has used up its share of the space for idempotency keys; try again later, or without a key",
  );
