/**
 * A guard around a store that the program brought: what it returns is validated, and what it promises has a deadline.
 *
 * Why one decorator over the whole port: a verifier, a keyring and an authenticator that each looked after the methods they call would
 * forget one. Stores of this package validate what they read and bound their waiting, so they pass through as they are, at no cost.
 */
import { KeystileError } from "../../contracts/errors.js";
import type { Change, ListQuery, Store, Table } from "../../contracts/store.js";
import { integer as integerOption, type OptionChecks } from "../check-options.js";
import { isThenable } from "../thenable.js";
import { createDeadline, type Deadline } from "./deadline.js";
import { flag, list, Malformed, optional, type Reader } from "./readers.js";
import { balance, draw, keyRecord, rows, spend } from "./rows.js";
import { isTrusted, trust } from "./trusted.js";

/** Options of all that take a store. */
export interface StoreGuardOptions {
  /**
   * Milliseconds within which a store of your own must settle each promise, 1…600_000, default 5_000; after that the call rejects with
   * STORE_TIMEOUT. keystile's own stores bound their waiting themselves.
   */
  readonly storeTimeout?: number | undefined;
}

/** What each of {@link StoreGuardOptions} must be. */
export const STORE_GUARD_OPTIONS = { storeTimeout: integerOption(1, 600_000) } as const satisfies OptionChecks;

const DEFAULT_TIMEOUT = 5_000;

/** Methods whose answers are data. `subscribe` and `close` are guarded by themselves. */
type Method = Exclude<keyof Store, "subscribe" | "close">;

/** How one method is guarded. */
interface Guard {
  /** The reader of its answer, which may depend on what was asked for. */
  readonly reader: (given: readonly unknown[]) => Reader<unknown>;
  /** It changes the store: when it is late, what became of it is unknown. */
  readonly writes?: true;
}

const always =
  <T>(reader: Reader<T>): Guard["reader"] =>
  () =>
    reader;
/** Nothing is expected; what comes all the same is dropped. */
const nothing = always(() => undefined);
/** Each reader as what the method may return: `undefined` where a row may be missing. */
const record = always(optional(keyRecord));
const rootKey = always(optional(rows.rootKeys));
const spent = always(optional(spend));
const drawn = always(optional(draw));
const counted = always(optional(balance));

const METHODS = {
  findKey: { reader: record },
  findForeignKey: { reader: record },
  findRootKey: { reader: rootKey },
  adoptDigest: { reader: always(flag), writes: true },
  spendCredits: { reader: spent, writes: true },
  drawCredits: { reader: drawn, writes: true },
  returnCredits: { reader: nothing, writes: true },
  readBalance: { reader: counted },
  read: { reader: ([table]) => optional<unknown>(rows[table as Table]) },
  readNames: { reader: ([table, , names]) => list<unknown>(rows[table as Table], (names as readonly string[]).length) },
  list: { reader: ([table, query]) => list<unknown>(rows[table as Table], (query as ListQuery).limit) },
  insertKeys: { reader: ([keys]) => exactly(flag, (keys as readonly unknown[]).length), writes: true },
  write: { reader: always(flag), writes: true },
  pollChanges: { reader: nothing },
} as const satisfies Record<Method, Guard>;

/**
 * The same store, guarded; a store of this package, or one that is guarded already, as it is.
 *
 * Every method of the result may throw or reject with KeystileError STORE_INVALID, for an answer that breaks the port's types (the message
 * names the method and the field, never the value), or STORE_TIMEOUT. What the store itself throws, or rejects with, rises as it is.
 * @param timeout milliseconds, 1…600_000
 */
export function guardStore(store: Store, timeout = DEFAULT_TIMEOUT): Store {
  if (isTrusted(store)) return store;
  const deadline = createDeadline(timeout);
  const methods = Object.entries(METHODS).map(([name, guard]) => [
    name,
    guarded(store, name as Method, guard, deadline, timeout),
  ]);
  const { subscribe, close }: Pick<Store, "subscribe" | "close"> = {
    subscribe: (listener) => subscribeTo(store, listener),
    close: () => store.close(),
  };
  return trust({ ...(Object.fromEntries(methods) as Pick<Store, Method>), subscribe, close });
}

function guarded(
  store: Store,
  name: Method,
  { reader, writes }: Guard,
  deadline: Deadline,
  timeout: number,
): (...given: unknown[]) => unknown {
  const resolved = (): KeystileError => {
    const outcome = writes === true ? "; whether it was done is unknown" : "";
    return new KeystileError("STORE_TIMEOUT", `the store did not answer ${name} within ${timeout} ms${outcome}`);
  };
  const validate = (answer: unknown, given: readonly unknown[]): unknown => {
    try {
      return reader(given)(answer);
    } catch (cause) {
      throw malformed(name, cause);
    }
  };
  return (...given) => {
    const answer = (store[name] as (...given: unknown[]) => unknown)(...given);
    if (answer === undefined) return validate(answer, given);
    return isPromised(name, answer)
      ? deadline(answer, resolved).then((value) => validate(value, given))
      : validate(answer, given);
  };
}

/** Looking for `then` may run the store's code. */
function isPromised(name: string, answer: unknown): answer is Promise<unknown> {
  try {
    return isThenable(answer);
  } catch (cause) {
    throw malformed(name, cause);
  }
}

/** A change that cannot be understood may have been any: all is forgotten then. */
function subscribeTo(store: Store, listener: (change: Change) => void): () => void {
  const unsubscribe: unknown = store.subscribe((change) => listener(toChange(change)));
  if (typeof unsubscribe !== "function") throw malformed("subscribe", new Malformed("must be a function"));
  return () => void (unsubscribe as () => unknown)();
}

function toChange(change: unknown): Change {
  if (change === "created") return change;
  if (typeof change !== "object" || change === null || !Object.hasOwn(change, "digest")) return "all";
  const { digest } = change as { readonly digest: unknown };
  return typeof digest === "string" ? { digest } : "all";
}

function exactly<T>(read: Reader<T>, length: number): Reader<T[]> {
  const items = list(read, length);
  return (value) => {
    const copy = items(value);
    if (copy.length !== length) throw new Malformed(`must have ${length} items`);
    return copy;
  };
}

function malformed(name: string, cause: unknown): KeystileError {
  const { message } = cause instanceof Malformed ? cause : new Malformed("cannot be read");
  return new KeystileError("STORE_INVALID", `the store's answer to ${name} is malformed: ${message}`, { cause });
}
