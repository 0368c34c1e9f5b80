/** Verifies the key in the headers of an HTTP request, for programs without one of the supported frameworks. */
import type { JsonObject, V2KeysVerifyKeyRequestBody, VerificationResult } from "../contracts/types.js";
import { type Check, isPlainObject, ownOnly } from "../lib/check-options.js";
import { isObject } from "../lib/copy-json.js";
import { DEFAULT_HEADERS, readHeaders } from "./credential.js";
import type { Verifier } from "./verifier.js";
import { CONTEXT, type VerifyContext } from "./context.js";

/** Headers of a request: those of fetch, or Node's object, whose names are in lower case. */
export type HeadersLike =
  | {
      /** The value of a header by its name; null: there is none. */
      get(name: string): string | null;
    }
  | (Readonly<Record<string, string | readonly string[] | undefined>> & {
      /** Options in the place of the headers: no key would be found in them, and all would be unknown. */
      readonly apiId?: never;
      readonly permissions?: never;
    });

/** The request without its key, its context, and the names of the headers. */
export interface VerifyHeadersOptions extends Omit<V2KeysVerifyKeyRequestBody, "key">, VerifyContext {
  /**
   * Names of the headers that may hold the key; the first that does counts. `authorization` counts only with the scheme
   * Bearer. Default `["authorization", "x-api-key"]`.
   */
  readonly headers?: readonly string[] | undefined;
}

/**
 * Verifies the key in the headers of a request: in the first of `options.headers` that holds one. If there is none, or
 * its value cannot be a key, the result is NOT_FOUND, without a call of the verifier.
 * @param verifier made by `createVerifier(store)`
 * @param headers of Node (`req.headers`) or of fetch (`request.headers`)
 * @throws (rejects) as `verify` · TypeError for headers or options that are not objects, and for invalid header names
 * @example
 * const { valid, code } = await verifyHeaders(verifier, request.headers, { apiId, permissions: "a.read" });
 */
export async function verifyHeaders<Meta = JsonObject>(
  verifier: Pick<Verifier<Meta>, "verify">,
  headers: HeadersLike,
  options: VerifyHeadersOptions = {},
): Promise<VerificationResult<Meta>> {
  const { get, headers: inside } = (headers ?? {}) as { readonly get?: unknown; readonly headers?: unknown };
  // In a whole request no header would be found, and every key would be unknown.
  if (!isObject(headers) || (typeof get !== "function" && isObject(inside)))
    throw new TypeError("headers must be the headers of a request: those of fetch, or Node's object");
  if (!isPlainObject(options)) throw new TypeError("options must be an object, not an array or a class instance");
  const { headers: names = DEFAULT_HEADERS, ...rest } = ownOnly<VerifyHeadersOptions>(options);
  headerNames(names, "options.headers");
  if (Object.hasOwn(rest, "key")) throw new TypeError("options.key is not an option: the headers hold the key");
  const lowered = names.map((name) => name.toLowerCase());
  const { presented } = readHeaders(lowered, (name) => headerOf(headers, name), false);
  if (presented == null) return { valid: false, code: "NOT_FOUND" };
  const request: Record<string, unknown> = { key: presented };
  const context: Record<string, unknown> = {};
  // Options that are not of the context go to the request, whose validation refuses unknown ones.
  for (const [name, value] of Object.entries(rest)) (Object.hasOwn(CONTEXT, name) ? context : request)[name] = value;
  return verifier.verify(request as unknown as V2KeysVerifyKeyRequestBody, context);
}

/** The value of a header; several are joined by commas. Of a plain object it reads own properties only. */
export function headerOf(headers: HeadersLike, name: string): string | undefined {
  if (typeof headers.get === "function")
    return (headers as { get(name: string): string | null }).get(name) ?? undefined;
  const value = Object.hasOwn(headers, name) ? (headers as Readonly<Record<string, unknown>>)[name] : undefined;
  return Array.isArray(value) ? value.join(", ") : typeof value === "string" ? value : undefined;
}

/** A list of header names, one at least. */
export const headerNames: Check = (value, path) => {
  if (!Array.isArray(value) || value.length === 0 || !value.every(isHeaderName))
    throw new TypeError(`${path} must be an array of header names`);
};

function isHeaderName(value: unknown): boolean {
  return typeof value === "string" && /^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(value);
}
