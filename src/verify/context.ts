/** What the program knows about a call besides its request: the context that it gives, and its reading. */
import { strictCaller } from "../access/check-caller.js";
import type { Caller } from "../contracts/caller.js";
import { contextError, isPlainObject, unknownOption } from "../lib/check-options.js";
import { hasOwnProperty } from "../lib/copy-json.js";
import type { Mutable } from "../lib/mutable.js";
import type { Viewer } from "./find-key.js";
import { TELL_PERMISSIONS, type TellingContext } from "./parse-permission-query.js";

/** What the program knows about a request besides its body. */
export interface VerifyContext {
  /** The client's IPv4 or IPv6 address. Without it, a key or API with an allow-list is FORBIDDEN. */
  readonly clientAddress?: string | undefined;
  /**
   * The authenticated caller, if the program serves others: contract 4.1-3 and 4.1-4 apply. Absent: the program itself,
   * which may verify every key.
   */
  readonly caller?: Caller;
  /**
   * Only keys of this API are found: a key of another API is NOT_FOUND and nothing is taken. Absent: keys of every API.
   */
  readonly apiId?: string;
  /**
   * Makes the call safe to repeat, 1–255 characters of printable ASCII. For `idempotency.ttl` milliseconds, a repeat
   * with the same idempotency key and body takes no credits or tokens again, in any process; every other check runs
   * anew. Idempotency keys are separate per workspace and caller. Without a caller, prefix one that a user chose with
   * the user's id. Needs a store with `powers.idempotency`.
   */
  readonly idempotencyKey?: string | undefined;
}

/** The names of {@link VerifyContext}; {@link readContext} reads each. */
export const CONTEXT: Readonly<Record<keyof VerifyContext, true>> = {
  clientAddress: true,
  caller: true,
  apiId: true,
  idempotencyKey: true,
};

/** A context after reading. Few calls have any of these values: most share one object. */
export interface CallContext extends Viewer {
  readonly clientAddress: string | undefined;
  /** As given, not yet validated; undefined: the call has no idempotency key. */
  readonly idempotencyKey: unknown;
  /** Receives a function that checks further permissions of the key; `undefined`: none is wanted. */
  readonly tellPermissions: TellingContext[typeof TELL_PERMISSIONS];
  /** Milliseconds for which the cost is reserved; `undefined`: the cost is spent at once. */
  readonly timeout: number | undefined;
}

/** The context of a call without one. */
export const NO_CONTEXT: CallContext = Object.freeze({
  clientAddress: undefined,
  caller: undefined,
  apiId: undefined,
  idempotencyKey: undefined,
  tellPermissions: undefined,
  timeout: undefined,
});

/** The names of `ReserveContext`. */
const RESERVE_CONTEXT = { ...CONTEXT, timeout: true } as const;

/**
 * Reads own properties only, each once: a polluted prototype must not set the caller or the address. Refuses unknown
 * names: a misspelt `apiId` would allow every API, a misspelt `caller` would let that caller act as the program.
 * @param timeout of a call that reserves its cost: milliseconds until an unsettled reservation returns its credits
 * @throws TypeError for a context that is not an object, an unknown name, or an `apiId` that is not text
 */
export function readContext(context: (VerifyContext & TellingContext) | undefined, timeout?: number): CallContext {
  const read: Mutable<CallContext> = {
    clientAddress: undefined,
    caller: undefined,
    apiId: undefined,
    idempotencyKey: undefined,
    tellPermissions: undefined,
    timeout,
  };
  if (context === undefined) return read;
  if (!isPlainObject(context)) throw contextError();
  const names = timeout === undefined ? CONTEXT : RESERVE_CONTEXT;
  for (const name in context)
    if (!hasOwnProperty.call(names, name) && hasOwnProperty.call(context, name))
      throw unknownOption("context", name, names);
  // Not in the loop: it skips properties that are not enumerable.
  if (hasOwnProperty.call(context, "clientAddress")) read.clientAddress = context.clientAddress;
  if (hasOwnProperty.call(context, "caller")) read.caller = strictCaller(context.caller, "context.caller");
  if (hasOwnProperty.call(context, "apiId")) read.apiId = apiIdOf(context.apiId);
  if (hasOwnProperty.call(context, "idempotencyKey")) read.idempotencyKey = context.idempotencyKey;
  if (hasOwnProperty.call(context, TELL_PERMISSIONS)) read.tellPermissions = context[TELL_PERMISSIONS];
  return read;
}

/** An `apiId` that is present but not text, such as undefined, throws: it must not allow every API. */
function apiIdOf(apiId: unknown): string {
  if (typeof apiId !== "string" || apiId === "")
    throw new TypeError("context.apiId must be the id of an API; leave it out to verify the keys of every API");
  return apiId;
}
