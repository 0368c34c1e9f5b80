/**
 * An operation of administration: its name, what it accepts and what it does. A method of the library parses and acts;
 * the HTTP operation does the same, and checks its caller in between.
 */
import type { Caller } from "../contracts/caller.js";
import { actorOf, type Audited, auditedBy } from "./audit.js";
import type { Context } from "./context.js";
import { parse, type Schema } from "./schemas/parse.js";

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

/** The context of one operation, and of one call for a caller. */
export function contextFor<C extends Context>(context: C, operation: string, caller?: Caller): C {
  if (caller === undefined) return { ...context, operation };
  return { ...context, operation, caller, audit: { ...context.audit, actor: actorOf(caller) } };
}

/** The method of an operation: it parses, and acts as the program. A body that is left out is an empty one. */
export function methodOf<C extends Context, B, T>(
  shared: C,
  { name, schema, act }: Operation<C, B, T>,
): (body?: B) => Promise<T> {
  const context = contextFor(shared, name);
  const accepted = typeof schema === "function" ? schema(context) : schema;
  return async (body = {} as B) => act(context, parse(accepted, body));
}

/**
 * The methods, with what they work with under a symbol, and the end of their audit trail. These are not enumerable:
 * printing or copying the methods does not reach the store, and their names are those of operations.
 */
export function withContext<M extends object>(methods: M, symbol: symbol, context: Context): M & Audited {
  const hidden = { ...auditedBy(context.audit.queue), [symbol]: context };
  for (const name of Reflect.ownKeys(hidden))
    Object.defineProperty(methods, name, { value: Reflect.get(hidden, name) as unknown });
  return methods as M & Audited;
}
