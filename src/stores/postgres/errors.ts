/** What went wrong at the server or on the way, as the store contract says it. */
import { KeystileError, type KeystileErrorCode } from "../../contracts/errors.js";

/**
 * Why a statement failed. `timeout`, `lost`: it may have been run. `stalled`, `refused`: it was not, because earlier
 * statements do not respond, or no connection was made. `conflict`: nothing was changed, and sending it again may help.
 * `unprepared`: the connection does not know the named statement. `server`: the server says so, with its SQLSTATE.
 */
export interface Failure {
  readonly kind: "timeout" | "stalled" | "lost" | "refused" | "conflict" | "unprepared" | "server";
  readonly state?: string;
  /** The code of a system error, such as ECONNREFUSED. */
  readonly system?: string;
}

const REFUSED: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "CONNECT_TIMEOUT",
]);
/** SQLSTATE of sessions that were ended, and of a server that starts, stops or has no connection left. */
const NO_SESSION: ReadonlySet<string> = new Set(["57P03", "53300"]);
const SESSION_LOST: ReadonlySet<string> = new Set(["57P01", "57P02", "57P05"]);
const SQLSTATE = /^[0-9A-Z]{5}$/;

/** Reads the error of any client. Its message and details are not kept: they may name a digest. */
export function failureOf(error: unknown): Failure {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  const said = typeof code === "string" ? code : "";
  // Codes of Node begin with E, as no SQLSTATE of the server does.
  if (SQLSTATE.test(said) && !/^E[A-Z]/.test(said)) return failureOfState(said);
  if (REFUSED.has(said)) return { kind: "refused", system: said };
  // `pg`, if the pool has no free connection in time: nothing was sent.
  if (typeof message === "string" && message.startsWith("timeout exceeded when trying to connect"))
    return { kind: "refused" };
  return said === "" ? { kind: "lost" } : { kind: "lost", system: said };
}

function failureOfState(state: string): Failure {
  if (state === "40001" || state === "40P01") return { kind: "conflict", state };
  if (state === "26000" || state === "42P05") return { kind: "unprepared", state };
  if (NO_SESSION.has(state)) return { kind: "refused", state };
  if (state.startsWith("08") || SESSION_LOST.has(state)) return { kind: "lost", state };
  return { kind: "server", state };
}

/** Whether an error says that another session held a lock for too long. */
export function isLockTimeout(error: unknown): boolean {
  return ((error as Error).cause as { code?: unknown } | undefined)?.code === "55P03";
}

/** What each SQLSTATE means; a prefix of two characters stands for its class. */
const STATES: Readonly<Record<string, readonly [KeystileErrorCode, string]>> = {
  KS002: ["NOT_FOUND", "the API of a key to be stored does not exist"],
  KS003: ["CONFLICT", "an API that still has keys cannot be removed"],
  KS009: ["STORE_SCHEMA_NEWER", "the tables were made by a later version of keystile; use that version"],
  KS011: [
    "STORE_FAILED",
    "the encoding of the database is not UTF8, so that it cannot hold every name; use one that was made with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
  ],
  "25006": [
    "STORE_READ_ONLY",
    "the server takes no writes: it is a read replica, or read-only by its settings; give the address of the primary",
  ],
  "53100": ["STORE_FULL", "the disk of the database server is full"],
  "23514": [
    "STORE_INVALID",
    "a row does not keep the rules of its table, as one whose credits do not add up: something else changed it; restore a backup, or put the row right in SQL",
  ],
  "42501": ["STORE_FAILED", "the role of the connection lacks a right; docs/postgres.md lists what it needs"],
  "42": [
    "STORE_INVALID",
    "the tables are not there, or not as keystile made them; run `npx keystile schema postgres | psql …`, or `await store.setUp()`, once",
  ],
  "3F": [
    "STORE_INVALID",
    "the schema is not there; run `npx keystile schema postgres | psql …`, or `await store.setUp()`, once",
  ],
  "28": ["STORE_FAILED", "the server refused the credentials of the connection"],
  "3D": ["STORE_FAILED", "the database is not there"],
  "57": ["STORE_BUSY", "the server cancelled the statement; nothing was changed"],
  "55": ["STORE_BUSY", "other sessions held a lock for too long; nothing was changed"],
};

export function toStoreError({ kind, state, system }: Failure, isRead: boolean): KeystileError {
  const cause = causeOf(state ?? system);
  if (kind === "conflict")
    return new KeystileError("STORE_BUSY", "other sessions kept changing the same rows; nothing was changed", cause);
  if (kind === "timeout" || kind === "lost" || kind === "stalled" || kind === "refused") {
    const outcomeUnknown = !isRead && (kind === "timeout" || kind === "lost");
    const what = kind === "timeout" || kind === "stalled" ? "did not respond in time" : "cannot be reached";
    const rest = outcomeUnknown ? "; whether the change was made is unknown" : "; nothing was changed";
    return new KeystileError("STORE_UNAVAILABLE", `the database server ${what}${isRead ? "" : rest}`, {
      ...cause,
      outcomeUnknown,
    });
  }
  const [code, text] = STATES[state ?? ""] ??
    STATES[(state ?? "").slice(0, 2)] ?? ["STORE_FAILED", "the database server refused a statement"];
  return new KeystileError(code, text, cause);
}

function causeOf(code: string | undefined): { cause?: Error } {
  return code === undefined
    ? {}
    : { cause: Object.assign(new Error(`the server or the client said ${code}`), { code }) };
}
