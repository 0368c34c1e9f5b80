/** Messages between a store and its writer thread. Errors carry message and codes, never parameters. */
import type { AuditEntry } from "../../../contracts/audit.js";
import {
  isKeystileError,
  KeystileError,
  type KeystileErrorCode,
  type ValidationProblem,
} from "../../../contracts/errors.js";
import type { Spend, Store } from "../../../contracts/store.js";
import type { BackupOrder, SqliteBackup } from "../backup/make-backup.js";
import type { Counters } from "../connection/counters.js";
import type { DriverName } from "../connection/driver.js";
import type { PackedKeys } from "../keys/keys-in-transfer.js";
import type { SqliteStoreOptions } from "../options.js";

/** Data that the thread is started with. */
export interface WriterData {
  readonly path: string;
  readonly options: SqliteStoreOptions;
  /** What the store has chosen. */
  readonly driver: DriverName | undefined;
}

/** Data that a thread is started with which makes one backup, and ends. */
export interface BackupData {
  readonly backup: BackupOrder;
}

/** From a thread that makes a backup. */
export type BackupResponse = { readonly made: SqliteBackup } | { readonly fault: Fault };

/** The methods that are handed on as they are, one call per message. */
export const HANDED_ON = [
  "spendOnce",
  "drawCredits",
  "returnCredits",
  "reserveCredits",
  "settleCredits",
  "settleWallets",
  "recordUses",
  "countOutcomes",
  "pruneOutcomes",
  "changeAlerts",
  "takeAlerts",
  "settleAlert",
] as const satisfies readonly (keyof Store)[];
export type HandedOn = (typeof HANDED_ON)[number];
/** The methods that are sent one call per message. */
export type WriterMethod = HandedOn | "spendWallets" | "adoptDigest" | "write";
export type WriterArguments<M extends WriterMethod> = Parameters<Required<Store>[M]>;

/** To the thread. Spends of one turn share a message: `ref`, `cost`, `period` and `now` of each. */
export type WriterRequest =
  | { readonly id: number; readonly spends: Float64Array<ArrayBuffer> }
  | { readonly id: number; readonly keys: PackedKeys; readonly entry: AuditEntry | undefined }
  | { readonly id: number; readonly method: WriterMethod; readonly given: readonly unknown[] }
  | { readonly close: true };

/**
 * From the thread. For spends: {@link packSpend} of each, and each error with the indexes of the spends that it failed.
 */
export type WriterResponse =
  | {
      readonly id: number;
      readonly spends: Float64Array<ArrayBuffer>;
      readonly faults: readonly (readonly [fault: Fault, at: number[]])[];
    }
  | { readonly id: number; readonly answer: unknown }
  | { readonly id: number; readonly fault: Fault }
  /** What the thread's store has counted: once the file is open, and with responses whenever it changed. */
  | { readonly counters: Counters }
  /** The thread could not open the file and has ended. */
  | { readonly unable: Fault };

/** Numbers per spend in a {@link WriterRequest}. */
export const REQUEST_WIDTH = 4;
/** Numbers per spend in a {@link WriterResponse}. */
export const RESPONSE_WIDTH = 3;

const STALE = -2;
const NO_KEY = -1;
const REFUSED = 0;
const TAKEN = 1;

/** Writes a result at index `i`. An unlimited balance is NaN. */
export function packSpend(into: Float64Array, i: number, spend: Spend | undefined): void {
  const at = i * RESPONSE_WIDTH;
  into[at] = spend === undefined ? NO_KEY : spend.stale === true ? STALE : spend.ok ? TAKEN : REFUSED;
  into[at + 1] = spend?.remaining ?? NaN;
  into[at + 2] = spend?.forfeited ?? 0;
}

/** Reads what {@link packSpend} wrote. */
export function unpackSpend(from: Float64Array, i: number): Spend | undefined {
  const at = i * RESPONSE_WIDTH;
  const outcome = from[at];
  if (outcome === NO_KEY) return undefined;
  if (outcome === STALE) return { ok: false, remaining: 0, stale: true };
  const balance = from[at + 1] as number;
  const forfeited = from[at + 2] as number;
  const spend = { ok: outcome === TAKEN, remaining: Number.isNaN(balance) ? null : balance };
  return forfeited === 0 ? spend : { ...spend, forfeited };
}

/** An error in a message: a structured clone would lose its class and codes. */
export interface Fault {
  readonly name: string;
  readonly message: string;
  readonly code?: unknown;
  readonly cause?: Fault;
  /** As in a {@link KeystileError}, where it says something. */
  readonly errors?: readonly ValidationProblem[];
  readonly outcomeUnknown?: boolean;
}

/** Packs an error for a message. */
export function packError(error: unknown): Fault {
  if (!(error instanceof Error)) return { name: "Error", message: "a value that is not an error was thrown" };
  const { name, message, cause } = error;
  const code = (error as { code?: unknown }).code;
  const own = isKeystileError(error) ? error : undefined;
  return {
    name: own === undefined ? name : "KeystileError",
    message,
    ...(own !== undefined && own.errors.length > 0 && { errors: own.errors }),
    ...(own?.outcomeUnknown === true && { outcomeUnknown: true }),
    ...((typeof code === "string" || typeof code === "number") && { code }),
    ...(cause !== undefined && { cause: packError(cause) }),
  };
}

/** Reads what {@link packError} packed. */
export function unpackError({ name, message, code, cause, errors = [], outcomeUnknown = false }: Fault): Error {
  const options = cause && { cause: unpackError(cause) };
  if (name === "KeystileError") {
    return new KeystileError(code as KeystileErrorCode, message, { errors, outcomeUnknown, ...options });
  }
  if (name === "RangeError") return new RangeError(message, options);
  if (name === "TypeError") return new TypeError(message, options);
  return Object.assign(new Error(message, options), { name }, code !== undefined && { code });
}
