/**
 * An operation of administration: its name, what it accepts and what it does. A method of the library parses and acts;
 * the HTTP operation does the same, and checks its caller in between.
 */
import type { Caller } from "../contracts/caller.js";
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import { ownProperty } from "../lib/check-options.js";
import { isObject } from "../lib/copy-json.js";
import { actorOf, type Audited, auditedBy } from "./audit.js";
import type { Context, OfCall, Progress, Shared } from "./context.js";
import { parse, type Schema } from "./schemas/parse.js";
import type { Explained } from "./schemas/requests.js";

/** What an operation does with a request that its schema has accepted. */
export type Act<C, B, T> = (context: C, request: B) => Promise<T>;

/** One operation. */
export interface Operation<C extends Context, B, T, S = Schema<B> | ((context: C) => Schema<B>)> {
  /** That of the method, and of its entries in the audit trail. */
  readonly name: string;
  /** What it accepts, in some cases depending on the workspace. */
  readonly schema: S;
  readonly act: Act<C, B, T>;
}

/** Declares an operation. */
export function operation<C extends Context, B, T>(
  name: string,
  schema: Schema<B>,
  act: Act<C, B, T>,
): Operation<C, B, T, Schema<B>> {
  return { name, schema, act };
}

/**
 * Runs one call of an operation in a context of its own.
 *
 * Why here: an error after the first write of an operation must not read as if nothing had been changed.
 * @param caller for whom; absent: the program itself
 * @param idempotencyKey of an `adjustment`, not validated so far
 * @throws what `act` throws; once something was written, errors of the store and the like as `outcomeUnknown`
 */
export async function runCall<S extends Shared, T>(
  {
    context: shared,
    operation,
    caller,
    idempotencyKey,
  }: {
    readonly context: S;
    readonly operation: string;
    readonly caller?: Caller | undefined;
    readonly idempotencyKey?: unknown;
  },
  act: (context: S & OfCall) => Promise<T>,
): Promise<T> {
  const audit = caller === undefined ? shared.audit : { ...shared.audit, actor: actorOf(caller) };
  const progress: Progress = { hasWritten: false };
  try {
    return await act({ ...shared, audit, operation, caller, now: shared.clock(), progress, idempotencyKey });
  } catch (error) {
    throw progress.hasWritten ? asUnknown(error) : error;
  }
}

/**
 * Runs one call of an operation that has a request, whose `reason` goes into the audit trail with whatever it changes.
 * @param read the request; a reason in it was validated
 */
export function runRequest<S extends Shared, B, T>(
  call: Parameters<typeof runCall<S, T>>[0],
  read: (context: S & OfCall) => B,
  act: Act<S & OfCall, B, T>,
): Promise<T> {
  return runCall(call, async (context) => {
    const request = read(context);
    const reason = ownProperty(request as Explained, "reason");
    return act(reason === undefined ? context : { ...context, reason }, request);
  });
}

/** A refusal (a status below 500) stays as it is: it tells the caller what was not done. */
function asUnknown(error: unknown): unknown {
  if (!isKeystileError(error) || error.status < 500 || error.outcomeUnknown === true) return error;
  const detail = `${error.detail}; some or all of the changes had been written by then`;
  return new KeystileError(error.code, detail, { cause: error, outcomeUnknown: true });
}

type Operations<C> = Readonly<Record<string, { readonly act: (context: C, request: never) => Promise<unknown> }>>;
/** What operations are as methods. */
type Methods<O extends Operations<never>> = {
  readonly [N in keyof O]: (body?: Parameters<O[N]["act"]>[1], options?: unknown) => ReturnType<O[N]["act"]>;
};

/** The methods of operations, by their names. */
export function methodsOf<S extends Shared, O extends Operations<S & OfCall>>(shared: S, operations: O): Methods<O> {
  const methods = Object.entries(operations).map(([name, one]) => [name, methodOf(shared, one as never)]);
  return Object.fromEntries(methods) as Methods<O>;
}

/**
 * The method of an operation: it parses, and acts as the program. A body that is left out is an empty one. An
 * idempotency key is refused, as over HTTP, rather than ignored: a repeat would act again.
 */
function methodOf<S extends Shared, B, T>(
  shared: S,
  { name, schema, act }: Operation<S & OfCall, B, T>,
): (body?: B, options?: unknown) => Promise<T> {
  return async (body = {} as B, options?: unknown) => {
    // Any other second argument may be that of `map`.
    if (isObject(options) && Object.hasOwn(options, "idempotencyKey"))
      throw new TypeError(`${name} takes no idempotencyKey: a repeat acts again`);
    const read = (context: S & OfCall) => parse(typeof schema === "function" ? schema(context) : schema, body);
    return runRequest({ context: shared, operation: name }, read, act);
  };
}

/**
 * The methods, with what they work with under a symbol, and the end of their audit trail. These are not enumerable:
 * printing or copying the methods does not reach the store, and their names are those of operations.
 */
export function withContext<M extends object>(methods: M, symbol: symbol, context: Shared): M & Audited {
  const hidden = { ...auditedBy(context.audit.queue), [symbol]: context };
  for (const name of Reflect.ownKeys(hidden))
    Object.defineProperty(methods, name, { value: Reflect.get(hidden, name) as unknown });
  return methods as M & Audited;
}
