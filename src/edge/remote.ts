/**
 * Verifies and administers keys from a Worker, in the Durable Object that has them: one hop a call.
 *
 * Why nothing waits for another request's call: a Worker may not settle a promise, or fire a timer, of another request.
 */
import { compileQuery, createGrants } from "../access/permission-query.js";
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import type { JsonObject, MaybePromise, V2KeysVerifyKeyRequestBody, VerificationResult } from "../contracts/types.js";
import type { Keyring } from "../keyring/keyring.js";
import { type Check, checkOptions, contextError, group, integer, isPlainObject } from "../lib/check-options.js";
import { digestKey } from "../lib/hash.js";
import { clearTimeout, setTimeout } from "../lib/timers.js";
import type { VerifyContext } from "../verify/context.js";
import { createPermissionCheck, TELL_PERMISSIONS, type TellingContext } from "../verify/parse-permission-query.js";
import { readRequest } from "../verify/request.js";
import type { ReservationResult } from "../verify/reserve.js";
import { keepRetryAfter } from "../verify/result-retry-after.js";
import type { Verifier } from "../verify/verifier.js";
import { type Answer, readAnswer } from "./answers.js";

/** What is used of the stub of an object: `env.KEYS.getByName("keys")`. */
export interface ObjectStub {
  call(operation: string, ...given: unknown[]): PromiseLike<string>;
}

/** Options of {@link remoteVerifier} and {@link remoteKeyring}. */
export interface RemoteOptions {
  /** Milliseconds within which the object must answer, 1…60_000, default 5_000. */
  readonly timeout?: number;
}

/** What {@link remoteVerifier} remembers. */
export interface RemoteCacheOptions {
  /** Milliseconds for which a VALID result is used again, 1…60_000: a revocation is seen within them. */
  readonly maxAge: number;
  /** Most results, 1…100_000, default 1_000. */
  readonly size?: number;
}

/** Options of {@link remoteVerifier}. */
export interface RemoteVerifierOptions extends RemoteOptions {
  /**
   * Use VALID results of keys again that have neither credits nor rate limits. What is answered from memory is not
   * counted by `analytics`, nor as a use of the key. Default: every call asks the object.
   */
  readonly cache?: RemoteCacheOptions;
}

const REMOTE_OPTIONS = { timeout: integer(1, 60_000) } as const satisfies Record<keyof RemoteOptions, Check>;
const CACHE_OPTIONS = { maxAge: integer(1, 60_000), size: integer(1, 100_000) } as const satisfies Record<
  keyof RemoteCacheOptions,
  Check
>;
const OPTIONS = { ...REMOTE_OPTIONS, cache: group(CACHE_OPTIONS) } as const satisfies Record<
  keyof RemoteVerifierOptions,
  Check
>;
const DEFAULT_TIMEOUT = 5_000;
const DEFAULT_SIZE = 1_000;

type Ask = (stub: ObjectStub, operation: string, given: readonly unknown[]) => Promise<string>;

/** @throws (the function rejects) KeystileError STORE_TIMEOUT, STORE_UNAVAILABLE */
function createAsk({ timeout = DEFAULT_TIMEOUT }: RemoteOptions): Ask {
  return async (stub, operation, given) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      const detail = `the object did not answer within ${timeout} ms; a change may or may not have been made`;
      timer = setTimeout(() => reject(new KeystileError("STORE_TIMEOUT", detail, { outcomeUnknown: true })), timeout);
    });
    try {
      return await Promise.race([stub.call(operation, ...given), late]);
    } catch (cause) {
      if (isKeystileError(cause)) throw cause;
      // Thrown before anything was sent.
      if ((cause as Error | undefined)?.name === "DataCloneError")
        throw new TypeError("what is given cannot be sent to an object: send plain data", { cause });
      const detail = "the object cannot be reached, or failed; its own words are in the cause";
      throw new KeystileError("STORE_UNAVAILABLE", detail, { cause, outcomeUnknown: true });
    } finally {
      clearTimeout(timer);
    }
  };
}

/** The operations of an object, asked from a Worker; made by {@link remoteKeyring}. */
export type RemoteKeyring = Keyring & Pick<Verifier, "spend" | "settle">;

/**
 * The operations of the keyring of an object, `spend` and `settle`, each as one call of the object: the same requests,
 * responses and errors. No `forOwner`, portal or console takes it: those run in the object.
 * @param objectOf finds the object, for each call: a stub that failed may stay broken
 * @throws TypeError or RangeError naming the option · (each method rejects) also STORE_UNAVAILABLE and STORE_TIMEOUT:
 * a change may have been made · TypeError for what cannot be sent, such as an instance of a class
 * @example
 * const keyring = remoteKeyring(() => env.KEYS.getByName("keys"));
 * const { key } = await keyring.createKey({ apiId });
 */
export function remoteKeyring(objectOf: () => ObjectStub, options: RemoteOptions = {}): RemoteKeyring {
  assertFinds(objectOf);
  const ask = createAsk(checkOptions(options, REMOTE_OPTIONS));
  const methodOf =
    (operation: string) =>
    async (...given: readonly unknown[]) =>
      readAnswer(await ask(objectOf(), operation, given)).value;
  // An object with `then` would be taken for a promise.
  return new Proxy({} as RemoteKeyring, {
    get: (_, name) => (typeof name === "string" && name !== "then" ? methodOf(name) : undefined),
  });
}

/**
 * A verifier for guards in a Worker, whose keys are in a Durable Object. Each verification is one call of the object,
 * unless `cache` says otherwise; credits and rate limits are always taken there. A call that fails, or takes longer
 * than `timeout`, rejects, and a guard refuses with 503. A context with a `caller`, whose methods cannot be sent, is a
 * TypeError.
 * @param objectOf finds the object of a key, by its text; `undefined`: none has it, and it is NOT_FOUND without a call.
 * It is asked for each call, since a stub that failed may stay broken
 * @throws TypeError or RangeError naming the option · (its methods reject) as those of `createVerifier`, and
 * KeystileError STORE_UNAVAILABLE, STORE_TIMEOUT, STORE_INVALID: the object answered with no result
 * @example
 * const verifier = remoteVerifier(() => env.KEYS.getByName("keys"), { cache: { maxAge: 5_000 } });
 * export default { fetch: apiKey(verifier, { apiId }, (request, key) => Response.json(key.keyId)) };
 */
export function remoteVerifier(
  objectOf: (key: string) => MaybePromise<ObjectStub | undefined>,
  options: RemoteVerifierOptions = {},
): Pick<Verifier, "verify" | "reserve"> {
  assertFinds(objectOf);
  const { cache, ...rest } = checkOptions(options, OPTIONS);
  if (cache !== undefined && cache.maxAge === undefined) throw new TypeError("options.cache.maxAge must be given");
  const ask = createAsk(rest);
  const results = cache && createResultCache(cache);
  const askFor = async (operation: string, { body, context, asks }: Sent) => {
    if (context !== undefined && "caller" in context) throw new TypeError("context.caller cannot be sent to an object");
    const stub = await objectOf(body.key);
    return stub === undefined ? UNKNOWN : ask(stub, operation, [body, context, asks]);
  };
  const verify: Verifier["verify"] = async (request, context) => {
    const sent = readCall(request, context);
    const name = results && (await nameOf(sent));
    const began = Date.now();
    const text = (name && results?.find(name, began)) ?? (await askFor("verify", sent));
    const answer = readAnswer(text);
    const result = resultOf(answer, context);
    if (name !== undefined && isLasting(result)) results?.keep(name, text, began, result);
    return result;
  };
  return {
    verify,
    async reserve(request, context) {
      const sent = readCall(request, context);
      const answer = readAnswer(await askFor("reserve", sent));
      const result = resultOf(answer, context) as ReservationResult<JsonObject>;
      if (!result.valid) return result;
      const { id } = result;
      if (typeof id !== "string") throw noResult();
      const commit = async (spent: number) => {
        const stub = await objectOf(sent.body.key);
        if (stub === undefined) throw new KeystileError("STORE_UNAVAILABLE", "no object has this key any more");
        return readAnswer(await ask(stub, "settle", [id, spent])).value as never;
      };
      return Object.assign(result, { commit, release: () => commit(0) });
    },
  };
}

function assertFinds(objectOf: unknown): void {
  if (typeof objectOf !== "function") throw new TypeError("objectOf must be a function that returns a stub");
}

/** A call as it is sent. */
interface Sent {
  readonly body: V2KeysVerifyKeyRequestBody;
  readonly context: VerifyContext | undefined;
  /** Whether the caller is to be told the permissions of the key. */
  readonly asks: boolean;
}

/**
 * Copies a call. It is sent after others had their turn, and its caller may have changed the request by then: the
 * result of one key would be remembered as that of another.
 * @throws KeystileError BAD_REQUEST · TypeError for a context that is no object
 */
function readCall(request: V2KeysVerifyKeyRequestBody, given: VerifyContext | undefined): Sent {
  const { cost, ...read } = readRequest(request);
  // JSON leaves out what was not given.
  const body = JSON.parse(JSON.stringify({ ...read, credits: { cost } })) as V2KeysVerifyKeyRequestBody;
  if (given === undefined) return { body, context: undefined, asks: false };
  if (!isPlainObject(given)) throw contextError();
  const { [TELL_PERMISSIONS]: tell, ...context } = given as VerifyContext & TellingContext;
  return { body, context, asks: tell !== undefined };
}

/** What is answered for a key that no object has. */
const UNKNOWN = JSON.stringify({ value: { valid: false, code: "NOT_FOUND" } satisfies VerificationResult });

const noResult = () =>
  new KeystileError("STORE_INVALID", "the object answered with no result; does it run another version of keystile?");

/** The result of an answer, with what goes with it unseen. @throws KeystileError STORE_INVALID */
function resultOf({ value, retryAfter, permissions }: Answer, context: (VerifyContext & TellingContext) | undefined) {
  const result = (value ?? {}) as VerificationResult;
  const isResult = typeof result.code === "string" && result.valid === (result.code === "VALID");
  if (!isResult || (result.valid && typeof result.keyId !== "string")) throw noResult();
  if (!result.valid) keepRetryAfter(result, retryAfter);
  if (permissions !== undefined) {
    const check = createPermissionCheck(compileQuery, createGrants(permissions));
    context?.[TELL_PERMISSIONS]?.(check, { permissions });
  }
  return result;
}

/** Whether nothing was taken for it, so that it may be used again: VALID without credits and limits. */
function isLasting({ valid, credits, ratelimits }: VerificationResult): boolean {
  return valid && credits === undefined && ratelimits === undefined;
}

/** @returns undefined: the call takes effect by itself, and must be made */
async function nameOf({ body, context = {}, asks }: Sent): Promise<string | undefined> {
  if (context.idempotencyKey !== undefined) return undefined;
  // As entries, since JSON leaves out a name whose value is undefined: a mistake is not to pass for its absence.
  return digestKey(JSON.stringify([body, Object.entries(context), asks]));
}

/** Texts of answers by the digest of their request: no text of a key is kept. */
function createResultCache({ maxAge, size = DEFAULT_SIZE }: RemoteCacheOptions) {
  const kept = new Map<string, { readonly text: string; readonly from: number; readonly until: number }>();
  return {
    find(name: string, now: number): string | undefined {
      const found = kept.get(name);
      if (found === undefined) return undefined;
      // A clock that was set back proves nothing.
      if (now >= found.from && now < found.until) return found.text;
      kept.delete(name);
      return undefined;
    },
    keep(name: string, text: string, from: number, { expires = Infinity }: VerificationResult): void {
      if (kept.has(name)) return;
      for (const [oldest] of kept) {
        if (kept.size < size) break;
        kept.delete(oldest);
      }
      kept.set(name, { text, from, until: Math.min(from + maxAge, expires + 1) });
    },
  };
}
