/**
 * A decorator around a store of the program's own: it validates results and puts deadlines on promises.
 *
 * Why one decorator over the whole port: a verifier, a keyring and an authenticator that each guarded the methods they
 * call would miss one. Stores of this package validate what they read and bound their own waiting, so they are returned
 * as they are, at no cost.
 */
import type { AlertChange, AlertQuery, AlertTake } from "../../contracts/alerts.js";
import type { AuditQuery } from "../../contracts/audit.js";
import { KeystileError } from "../../contracts/errors.js";
import { MAX_REFUSALS, type OutcomeFlush, type OutcomeQuery } from "../../contracts/outcomes.js";
import { isCreditWrite } from "../../contracts/row-changes.js";
import type { Change, KeySearch, ListQuery, Store, Table, Versioned, Write } from "../../contracts/store.js";
import { integer as integerOption, type OptionChecks } from "../check-options.js";
import { isFoundWithKeys } from "../../contracts/row-changes.js";
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
import {
  alertRow,
  auditSlice,
  balance,
  creditDay,
  draw,
  flushResult,
  keyCounts,
  keyRecord,
  keySlice,
  onceSpend,
  outcomeRow,
  ownedWallet,
  refusal,
  rows,
  settlement,
  spend,
  writtenBalance,
} from "./rows.js";
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
interface Guard {
  /** The reader of its result, which may depend on the arguments. */
  readonly reader: (given: readonly unknown[]) => Reader<unknown>;
  /** Whether it changes the store: after a timeout it is unknown whether the change was made. */
  readonly writes?: true;
}

const always =
  <T>(reader: Reader<T>): Guard["reader"] =>
  () =>
    reader;
/** No result is expected; any is dropped. */
const nothing = always(() => undefined);
/** Readers of results: `undefined` is allowed where a row may be missing. */
const record = always(optional(keyRecord));
const rootKey = always(optional(rows.rootKeys));
const spendResult = always(optional(spend));
const drawResult = always(optional(draw));
/** Of a write: what it left of each balance that it changed, or why it was not made. */
const outcome: Guard["reader"] = ([writes, , once]) => {
  const changed = (writes as readonly Write[]).filter(isCreditWrite);
  const refusals = ["conflict", "taken", ...(once === undefined ? [] : ["repeated", "mismatch", "full"])];
  if (changed.length === 0) return oneOf("written", ...refusals);
  const [refusal, balances] = [oneOf(...refusals), eachOf(changed, writtenBalance)];
  return (value) => (typeof value === "string" ? refusal(value) : balances(value));
};

/** 32 bytes in hexadecimal. */
const MIN_SECRET = 64;

const METHODS = {
  findKey: { reader: record },
  findKeys: { reader: ([digests]) => eachOf(digests, optional(keyRecord)) },
  findForeignKey: { reader: record },
  findRootKey: { reader: rootKey },
  adoptDigest: { reader: always(flag), writes: true },
  spendCredits: { reader: spendResult, writes: true },
  spendOnce: { reader: always(onceSpend), writes: true },
  findOnce: { reader: always(optional(text(1))) },
  readSecret: { reader: always(text(MIN_SECRET)) },
  recordUses: { reader: nothing, writes: true },
  countOutcomes: { reader: ([flush]) => flushResult((flush as OutcomeFlush).cells.length), writes: true },
  readOutcomes: { reader: ([query]) => list(outcomeRow, (query as OutcomeQuery).maxRows) },
  readCreditDays: { reader: always(list(creditDay)) },
  readRefusals: { reader: always(list(refusal, MAX_REFUSALS)) },
  pruneOutcomes: { reader: ([, , most]) => integer(0, most as number), writes: true },
  readAudit: { reader: ([query]) => auditSlice((query as AuditQuery).limit) },
  drawCredits: { reader: drawResult, writes: true },
  returnCredits: { reader: nothing, writes: true },
  reserveCredits: { reader: spendResult, writes: true },
  settleCredits: { reader: always(settlement), writes: true },
  readBalances: { reader: ([queries]) => eachOf(queries, optional(balance)) },
  readMany: { reader: ([table, ids]) => ofIds(ids as readonly string[], rows[table as Table]) },
  readNames: { reader: ([table, , names]) => list<unknown>(rows[table as Table], (names as readonly string[]).length) },
  list: { reader: ([table, query]) => list<unknown>(rows[table as Table], (query as ListQuery).limit) },
  insertKeys: { reader: ([keys]) => eachOf(keys, flag), writes: true },
  write: { reader: outcome, writes: true },
  pollChanges: { reader: nothing },
  searchKeys: { reader: ([search]) => keySlice((search as KeySearch).limit) },
  countKeys: { reader: always(keyCounts) },
  findKeyIds: { reader: ([wanted]) => eachOf(wanted, optional(text(1))) },
  changeAlerts: { reader: ([changes]) => eachOf(changes as readonly AlertChange[], flag), writes: true },
  listAlerts: { reader: ([query]) => list(alertRow, (query as AlertQuery).limit) },
  takeAlerts: { reader: ([take]) => list(alertRow, (take as AlertTake).limit), writes: true },
  settleAlert: { reader: nothing, writes: true },
  findWallet: { reader: always(optional(ownedWallet)) },
  spendWallets: { reader: always(onceSpend), writes: true },
  settleWallets: { reader: always(settlement), writes: true },
} as const satisfies Record<Method, Guard>;

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
      return reader(given)(result);
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
function eachOf<T>(given: unknown, read: Reader<T>): Reader<T[]> {
  const { length } = given as readonly unknown[];
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
