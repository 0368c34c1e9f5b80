/**
 * A decorator around a store of the program's own: it validates results and puts deadlines on promises.
 *
 * Why one decorator over the whole port: a verifier, a keyring and an authenticator that each guarded the methods they
 * call would miss one. Stores of this package validate what they read and bound their own waiting, so they are returned
 * as they are, at no cost.
 */
import { KeystileError } from "../../contracts/errors.js";
import { MAX_REFUSALS } from "../../contracts/outcomes.js";
import type { Change, Store, Versioned } from "../../contracts/store.js";
import { integer as integerOption, methods, type OptionChecks } from "../check-options.js";
import { assertRuntime } from "../runtime.js";
import { isCreditWrite, isFoundWithKeys } from "../../contracts/row-changes.js";
import { isThenable } from "../thenable.js";
import { createDeadline, type Deadline } from "./deadline.js";
import {
  lacking as lackingPower,
  readPowers,
  withoutAnalytics,
  withoutAudit,
  withoutIdempotency,
  withoutLeases,
  withoutReservations,
  withoutUsage,
} from "./powers.js";
import { flag, integer, list, Malformed, oneOf, optional, type Reader, text } from "./readers.js";
import * as results from "./rows.js";
import { isTrusted, trust } from "./trusted.js";

/** Options of everything that takes a store. */
export interface StoreGuardOptions {
  /**
   * Milliseconds within which a store of your own must settle each promise, 1…600_000, default 5_000; after that the
   * call rejects with STORE_TIMEOUT. keystile's own stores bound their waiting themselves.
   */
  readonly storeTimeout?: number | undefined;
}

/** The checks of {@link StoreGuardOptions}. */
export const STORE_GUARD_OPTIONS = { storeTimeout: integerOption(1, 600_000) } as const satisfies OptionChecks;

const DEFAULT_TIMEOUT = 5_000;

/** Methods that return data. `subscribe` and `close` are handled separately. */
type Method = Exclude<keyof Store, "powers" | "subscribe" | "close">;

/** How one method is guarded. */
interface Guard<Given extends readonly unknown[] = never[]> {
  /** The reader of its result, which may depend on the arguments. */
  readonly reader: (...given: Given) => Reader<unknown>;
  /** Whether it changes the store: after a timeout it is unknown whether the change was made. */
  readonly writes?: true;
}

/** Whether a store may lack a method. */
type Presence<M extends Method> = undefined extends Store[M]
  ? { readonly optional: true }
  : { readonly optional?: never };

const always =
  <T>(reader: Reader<T>) =>
  () =>
    reader;
/** No result is expected; any is dropped. */
const nothing = always(() => undefined);
/** Readers of results: `undefined` is allowed where a row may be missing. */
const record = always(optional(results.keyRecord));
const rootKey = always(optional(results.rows.rootKeys));
const spendResult = always(optional(results.spend));
const drawResult = always(optional(results.draw));
/** Of a write: what it left of each balance that it changed, or why it was not made. */
const outcome = (...[writes, , once]: Parameters<Store["write"]>): Reader<unknown> => {
  const changed = writes.filter(isCreditWrite);
  const refusals = ["conflict", "taken", ...(once === undefined ? [] : ["repeated", "mismatch", "full"])];
  if (changed.length === 0) return oneOf("written", ...refusals);
  const [refusal, balances] = [oneOf(...refusals), eachOf(changed, results.writtenBalance)];
  return (value) => (typeof value === "string" ? refusal(value) : balances(value));
};

/** 32 bytes in hexadecimal. */
const MIN_SECRET = 64;

const METHODS: { readonly [M in Method]: Guard<Parameters<Required<Store>[M]>> & Presence<M> } = {
  findKey: { reader: record },
  findKeys: { reader: (digests) => eachOf(digests, optional(results.keyRecord)) },
  findForeignKey: { reader: record },
  findRootKey: { reader: rootKey },
  adoptDigest: { reader: always(flag), writes: true },
  spendCredits: { reader: spendResult, writes: true },
  spendOnce: { reader: always(results.onceSpend), writes: true },
  findOnce: { reader: always(optional(text(1))) },
  readSecret: { reader: always(text(MIN_SECRET)) },
  recordUses: { reader: nothing, writes: true },
  countOutcomes: { reader: (flush) => results.flushResult(flush.cells.length), writes: true },
  readOutcomes: { reader: (query) => list(results.outcomeRow, query.maxRows) },
  readCreditDays: { reader: always(list(results.creditDay)) },
  readRefusals: { reader: always(list(results.refusal, MAX_REFUSALS)), optional: true },
  pruneOutcomes: { reader: (_level, _before, most) => integer(0, most), writes: true },
  readAudit: { reader: (query) => results.auditSlice(query.limit) },
  drawCredits: { reader: drawResult, writes: true },
  returnCredits: { reader: nothing, writes: true },
  reserveCredits: { reader: spendResult, writes: true },
  settleCredits: { reader: always(results.settlement), writes: true },
  readBalances: { reader: (queries) => eachOf(queries, optional(results.balance)) },
  readMany: { reader: (table, ids) => ofIds(ids, results.rows[table]) },
  readNames: { reader: (table, _workspaceId, names) => list<unknown>(results.rows[table], names.length) },
  list: { reader: (table, query) => list<unknown>(results.rows[table], query.limit) },
  insertKeys: { reader: (keys) => eachOf(keys, flag), writes: true },
  write: { reader: outcome, writes: true },
  pollChanges: { reader: nothing },
  searchKeys: { reader: (search) => results.keySlice(search.limit), optional: true },
  countKeys: { reader: always(results.keyCounts), optional: true },
  findKeyIds: { reader: (wanted) => eachOf(wanted, optional(text(1))), optional: true },
  changeAlerts: { reader: (changes) => eachOf(changes, flag), writes: true, optional: true },
  listAlerts: { reader: (query) => list(results.alertRow, query.limit), optional: true },
  takeAlerts: { reader: (take) => list(results.alertRow, take.limit), writes: true, optional: true },
  settleAlert: { reader: nothing, writes: true, optional: true },
  findWallet: { reader: always(optional(results.ownedWallet)), optional: true },
  spendWallets: { reader: always(results.onceSpend), writes: true, optional: true },
  settleWallets: { reader: always(results.settlement), writes: true, optional: true },
};

/** All methods that a store may have. */
export const ALL_METHODS: readonly (keyof Store)[] = [...(Object.keys(METHODS) as Method[]), "subscribe", "close"];
/** The methods that every store has. */
const STORE_METHODS = ALL_METHODS.filter((name) => METHODS[name as Method]?.optional !== true);

/** @throws TypeError if the value cannot be a store, which says what makes one, or names the missing method */
export function checkStore(store: unknown): void {
  assertRuntime();
  if (typeof store !== "object" || store === null)
    throw new TypeError("store must be a store: sqliteStore(path), postgresStore(options) and memoryStore() make one");
  if (isThenable(store)) throw new TypeError("store is a promise: await it first");
  methods(...STORE_METHODS)(store, "store");
}

/**
 * Guards a store; returns a store of this package, or one that is guarded already, as it is.
 *
 * Every method of the result may throw, or reject with, KeystileError STORE_INVALID if the store's result violates the
 * types of the port (the message names the method and the field, never the value), or STORE_TIMEOUT. The store's own
 * errors propagate unchanged. Methods of a power that the store lacks are not called: they fail with
 * STORE_POWER_MISSING.
 * @param timeout milliseconds, 1…600_000
 * @throws TypeError that names what is missing or wrong in `store.powers`
 */
export function guardStore(store: Store, timeout = DEFAULT_TIMEOUT): Store {
  if (isTrusted(store)) return store;
  const powers = readPowers(store.powers);
  const deadline = createDeadline(timeout);
  const methods = Object.entries(METHODS)
    .filter(([name]) => store[name as Method] !== undefined)
    .map(([name, guard]) => [name, guarded(store, name as Method, guard, deadline, timeout)]);
  const { subscribe, close }: Pick<Store, "subscribe" | "close"> = {
    subscribe: (listener) => subscribeTo(store, listener),
    close: () => store.close(),
  };
  const guards = Object.fromEntries(methods) as Pick<Store, Method>;
  const lacking = {
    ...(!powers.leases && withoutLeases),
    ...(powers.reservations !== true && withoutReservations),
    ...(!powers.idempotency && { ...withoutIdempotency, write: refusingOnce(guards.write) }),
    ...(!powers.usage && withoutUsage),
    ...(powers.audit !== true && withoutAudit),
    ...(powers.analytics !== true && withoutAnalytics),
  };
  return trust({ powers, ...guards, ...lacking, subscribe, close });
}

/** Of a store that would ignore it: the write would be made again each time. */
function refusingOnce(write: Store["write"]): Store["write"] {
  return (writes, entries, once) => {
    if (once !== undefined) throw lackingPower("idempotency", "write with once");
    return write(writes, entries);
  };
}

function guarded(
  store: Store,
  name: Method,
  { reader, writes }: Guard,
  deadline: Deadline,
  timeout: number,
): (...given: unknown[]) => unknown {
  const timeoutError = (): KeystileError => {
    const outcomeUnknown = writes === true;
    const outcome = outcomeUnknown ? "; whether it was done is unknown" : "";
    const message = `the store did not answer ${name} within ${timeout} ms${outcome}`;
    return new KeystileError("STORE_TIMEOUT", message, { outcomeUnknown });
  };
  const validate = (result: unknown, given: readonly unknown[]): unknown => {
    try {
      return reader(...(given as never[]))(result);
    } catch (cause) {
      throw malformed(name, cause);
    }
  };
  return (...given) => {
    const result = (store[name] as (...given: unknown[]) => unknown)(...given);
    if (result === undefined) return validate(result, given);
    return isPromised(name, result)
      ? deadline(result, timeoutError).then((value) => validate(value, given))
      : validate(result, given);
  };
}

/** Reading `then` may run the store's code. */
function isPromised(name: string, result: unknown): result is Promise<unknown> {
  try {
    return isThenable(result);
  } catch (cause) {
    throw malformed(name, cause);
  }
}

/** An unknown change may have been any: it is passed on as `all`. */
function subscribeTo(store: Store, listener: (change: Change) => void): () => void {
  const unsubscribe: unknown = store.subscribe((change) => listener(toChange(change)));
  if (typeof unsubscribe !== "function") throw malformed("subscribe", new Malformed("must be a function"));
  return () => void (unsubscribe as () => unknown)();
}

function toChange(change: unknown): Change {
  if (change === "created") return change;
  if (typeof change !== "object" || change === null) return "all";
  const { digest, table, id } = change as {
    readonly digest?: unknown;
    readonly table?: unknown;
    readonly id?: unknown;
  };
  if (Object.hasOwn(change, "digest")) return typeof digest === "string" ? { digest } : "all";
  if (!Object.hasOwn(change, "table") || !Object.hasOwn(change, "id") || typeof id !== "string") return "all";
  return isFoundWithKeys(table) ? { table, id } : "all";
}

/** One item for each of `given`. */
function eachOf<T>({ length }: readonly unknown[], read: Reader<T>): Reader<T[]> {
  const items = list(read, length);
  return (value) => {
    const copy = items(value);
    if (copy.length !== length) throw new Malformed(`must have ${length} items`);
    return copy;
  };
}

/** At each place the row with the id that was given there, or nothing: a query returns rows in an order of its own. */
function ofIds(ids: readonly string[], read: Reader<Versioned>): Reader<(Versioned | undefined)[]> {
  const items = eachOf(ids, optional(read));
  return (value) => {
    const copy = items(value);
    const wrong = copy.findIndex((row, i) => row !== undefined && row.id !== ids[i]);
    if (wrong >= 0) throw new Malformed("must be the id given at this place", `[${wrong}].id`);
    return copy;
  };
}

function malformed(name: string, cause: unknown): KeystileError {
  const { message } = cause instanceof Malformed ? cause : new Malformed("cannot be read");
  return new KeystileError("STORE_INVALID", `the store's answer to ${name} is malformed: ${message}`, { cause });
}
