/** Errors: one catalogue of codes and one error class. Contract 2.4, 7. No message ever contains a secret. */

/** One problem with a request. Contract 2.4. */
export interface ValidationProblem {
  /** JSON path, such as `body.ratelimits[1].name`. */
  readonly location: string;
  /** The rule that was violated. Never contains the value. */
  readonly message: string;
  /** How to fix it, where that is obvious. */
  readonly fix?: string;
  /** Of a permission query: where in it, in characters from 0; its length, if it ends too early. Not enumerable. */
  readonly position?: number;
}

interface Kind {
  readonly status: number;
  readonly title: string;
  /** Path of the problem type below `{docs_base}/errors/`. */
  readonly type: string;
}

const kind = (status: number, title: string, type: string): Kind => ({ status, title, type });

/** Every error that keystile reports, by its stable code. */
const CATALOGUE = {
  BAD_REQUEST: kind(400, "Bad Request", "user/bad_request/invalid_input"),
  PERMISSIONS_QUERY_SYNTAX: kind(400, "Bad Request", "user/bad_request/permissions_query_syntax_error"),
  AUTH_MISSING: kind(401, "Unauthorized", "keystile/authentication/missing"),
  AUTH_MALFORMED: kind(401, "Unauthorized", "keystile/authentication/malformed"),
  AUTH_KEY_NOT_FOUND: kind(401, "Unauthorized", "keystile/authentication/key_not_found"),
  AUTH_TOKEN_INVALID: kind(401, "Unauthorized", "keystile/authentication/token_invalid"),
  CALLER_FORBIDDEN: kind(403, "Forbidden", "forbidden"),
  PROTECTED_RESOURCE: kind(403, "Forbidden", "keystile/application/protected_resource"),
  NOT_FOUND: kind(404, "Not Found", "application/not_found"),
  METHOD_NOT_ALLOWED: kind(405, "Method Not Allowed", "user/bad_request/method_not_allowed"),
  REQUEST_TIMEOUT: kind(408, "Request Timeout", "user/bad_request/request_timeout"),
  CONFLICT: kind(409, "Conflict", "application/conflict"),
  KEY_LIMIT_REACHED: kind(409, "Conflict", "application/key_limit_reached"),
  IDEMPOTENCY_IN_FLIGHT: kind(409, "Conflict", "application/idempotency_in_flight"),
  PAYLOAD_TOO_LARGE: kind(413, "Content Too Large", "user/bad_request/payload_too_large"),
  UNSUPPORTED_MEDIA_TYPE: kind(415, "Unsupported Media Type", "user/bad_request/unsupported_media_type"),
  IDEMPOTENCY_MISMATCH: kind(422, "Unprocessable Content", "user/bad_request/idempotency_mismatch"),
  ANALYTICS_TOO_LARGE: kind(422, "Unprocessable Content", "user/unprocessable_entity/analytics_too_large"),
  TOO_MANY_REQUESTS: kind(429, "Too Many Requests", "user/too_many_requests"),
  HEADERS_TOO_LARGE: kind(431, "Request Header Fields Too Large", "user/bad_request/headers_too_large"),
  INTERNAL: kind(500, "Internal Server Error", "application/internal"),
  VERIFIER_CLOSED: kind(500, "Internal Server Error", "application/verifier_closed"),
  CREDITS_NOT_RETURNED: kind(500, "Internal Server Error", "application/credits_not_returned"),
  RESERVATIONS_FULL: kind(503, "Service Unavailable", "application/reservations_full"),
  IDEMPOTENCY_FULL: kind(503, "Service Unavailable", "application/idempotency_full"),
  LIMITER_UNAVAILABLE: kind(503, "Service Unavailable", "application/limiter_unavailable"),
  STORE_BUSY: kind(503, "Service Unavailable", "application/store_busy"),
  STORE_CLOSED: kind(500, "Internal Server Error", "application/store_closed"),
  STORE_READ_ONLY: kind(500, "Internal Server Error", "application/store_read_only"),
  STORE_TIMEOUT: kind(503, "Service Unavailable", "application/store_timeout"),
  STORE_UNAVAILABLE: kind(503, "Service Unavailable", "application/store_unavailable"),
  STORE_FULL: kind(500, "Internal Server Error", "application/store_full"),
  STORE_INVALID: kind(500, "Internal Server Error", "application/store_invalid"),
  STORE_SCHEMA_NEWER: kind(500, "Internal Server Error", "application/store_schema_newer"),
  STORE_POWER_MISSING: kind(500, "Internal Server Error", "application/store_power_missing"),
  STORE_FILE_CHANGED: kind(500, "Internal Server Error", "application/store_file_changed"),
  STORE_FILE_LINKED: kind(500, "Internal Server Error", "application/store_file_linked"),
  STORE_FAILED: kind(500, "Internal Server Error", "application/store_failed"),
  OVERLOADED: kind(503, "Service Unavailable", "application/overloaded"),
  NOT_READY: kind(503, "Service Unavailable", "application/not_ready"),
  META_INVALID: kind(500, "Internal Server Error", "application/meta_invalid"),
  DRIVER_MISSING: kind(500, "Internal Server Error", "application/driver_missing"),
  DRIVER_UNSUPPORTED: kind(500, "Internal Server Error", "application/driver_unsupported"),
} as const satisfies Record<string, Kind>;

/**
 * Stable codes of {@link KeystileError}. Contract 7.
 *
 * 400; `errors` lists each problem and its location:
 * - `BAD_REQUEST`: the request violates its schema, or names a rate limit or an algorithm that does not exist.
 * - `PERMISSIONS_QUERY_SYNTAX`: the permission query does not parse; the problem is at `body.permissions`.
 *
 * 401, from an authenticator:
 * - `AUTH_MISSING`: no credential was sent.
 * - `AUTH_MALFORMED`: the `Authorization` header is not a single `Bearer <token>`.
 * - `AUTH_KEY_NOT_FOUND`: the root key is unknown, deleted, disabled or expired, or it is an ordinary key. The error
 *   does not say which.
 * - `AUTH_TOKEN_INVALID`: the proxy token's signature, times or claims are not valid.
 *
 * 403 to 431:
 * - `CALLER_FORBIDDEN`: the caller lacks the permission for this (contract 4.1-4, 5.4).
 * - `PROTECTED_RESOURCE`: a resource that may not be changed this way, as the specification defines it. keystile itself
 *   refuses nothing with it; a client may meet it from another service with this interface.
 * - `NOT_FOUND`: the resource is unknown, deleted or not visible to the caller. The error does not say which. From a
 *   server, also an unknown path.
 * - `METHOD_NOT_ALLOWED`: from a server: the path takes other methods, which `Allow` lists.
 * - `REQUEST_TIMEOUT`: from a server: the request did not arrive in time.
 * - `CONFLICT`: the name, or the given id, is already in use; of a backup: the file is already there.
 * - `KEY_LIMIT_REACHED`: from `forOwner`: the owner has as many keys as its ceiling allows.
 * - `IDEMPOTENCY_IN_FLIGHT`: a call with this idempotency key has not ended yet; repeat yours once it has. From
 *   `reserve` also: its reservation outlived the record of the call and is still open.
 * - `PAYLOAD_TOO_LARGE`: from a server: the body is larger than allowed: by default 128 KiB, and 1 MiB for operations
 *   whose longest legal body is longer.
 * - `UNSUPPORTED_MEDIA_TYPE`: from a server: the body is not plain `application/json` in UTF-8.
 * - `IDEMPOTENCY_MISMATCH`: the idempotency key was used with another body; take a new one for a new request.
 * - `ANALYTICS_TOO_LARGE`: a query would read more counts, or take longer, than it may; narrow its times or filters.
 * - `TOO_MANY_REQUESTS`: from a server: the workspace has used up its request limit; `Retry-After` gives the seconds to
 *   wait.
 * - `HEADERS_TOO_LARGE`: from a server: the headers are larger than allowed.
 *
 * 500 and 503, not the fault of the request; `cause` may say more:
 * - `INTERNAL`: from a server: an unexpected error, which was passed to `onError`. The client gets no details.
 * - `VERIFIER_CLOSED`: the verifier was closed.
 * - `CREDITS_NOT_RETURNED`: from `close()`: the store did not take back leased credits in time, or failed doing so;
 *   `detail` says how many.
 * - `RESERVATIONS_FULL`: from `reserve`: the balance has 1,000 open reservations, or as many credits in
 *   them as a number can hold; settle some. No credits were taken; rate-limit tokens may have been.
 * - `IDEMPOTENCY_FULL`: the store is full of idempotency keys, and the workspace has its share of them. No credits
 *   were taken or changed; rate-limit tokens may have been taken.
 * - `LIMITER_UNAVAILABLE`: the limiter failed or timed out with `onLimiterFailure: "deny"`, or a memory limiter was
 *   closed.
 * - `STORE_BUSY`: other writers held the store, or kept changing what was to be written, for too long; try again. What
 *   was asked for was not written; rate-limit tokens may have been taken, and permissions and identities that it names
 *   created.
 * - `STORE_CLOSED`: the store, or its handle, was closed.
 * - `STORE_READ_ONLY`: the database is read-only; nothing was changed.
 * - `STORE_TIMEOUT`: a store of your own did not respond within `storeTimeout`; a write may or may not have been made.
 * - `STORE_UNAVAILABLE`: the database server cannot be reached, or did not respond in time. Of a call that changes
 *   something, {@link KeystileError.outcomeUnknown} says whether it may have been made.
 * - `STORE_FULL`: the disk or the database is full; nothing was changed.
 * - `STORE_INVALID`: the file is damaged, empty, not a database, one of another program or one that was made before
 *   keystile 0.1.0, or a `-wal` of another file lies beside it; `detail` says which. Or a store of your own returned a
 *   value that violates the types of the port: `detail` names the method and the field.
 * - `STORE_SCHEMA_NEWER`: the file was written by a later version of keystile; open it with that version.
 * - `STORE_POWER_MISSING`: an option or a call needs a power that the store lacks; `detail` names the power. Nothing
 *   was changed.
 * - `STORE_FILE_CHANGED`: the file was deleted, replaced or truncated while it was open; close the store, put the file
 *   right and open it again. What was acknowledged before stands in the file that was opened.
 * - `STORE_FILE_LINKED`: the file has several names (hard links), or is mounted by itself: processes that open it
 *   under another name would not share its log. Keep one name, and mount its folder.
 * - `STORE_FAILED`: any other store failure; a write may or may not have been made.
 * - `OVERLOADED`: from a server: the caller's workspace, or all together, hold as much as they may, and no space came
 *   free within `admissionTimeout`; nothing was done. `Retry-After` gives the seconds to wait.
 * - `NOT_READY`: from a server: `GET /ready` found that the store cannot be relied on; `onError` gets what was found.
 * - `META_INVALID`: the stored metadata of a key does not fit the schema given to `createVerifier`; nothing was taken.
 * - `DRIVER_MISSING`: better-sqlite3 is not installed, and this runtime has no node:sqlite, as Node before 22.13;
 *   `detail` gives the command to run.
 * - `DRIVER_UNSUPPORTED`: better-sqlite3 does not run here, or does not load, and there is no node:sqlite either;
 *   `detail` gives the command to run.
 */
export type KeystileErrorCode = keyof typeof CATALOGUE;

/** One problem type, for documentation. Contract 2.4, 7. */
export interface ProblemType extends Kind {
  /** The stable code; each has its own problem type. */
  readonly code: KeystileErrorCode;
}

/** Every problem type once, ordered by status: for documentation pages and schemas. */
export function listProblemTypes(): ProblemType[] {
  const types = Object.entries(CATALOGUE).map(([code, entry]) => ({ ...entry, code: code as KeystileErrorCode }));
  return types.sort((a, b) => a.status - b.status);
}

const BRAND = Symbol.for("keystile.KeystileError");

/**
 * The error class of keystile: a caller's mistake (status 400–431), or something that is not the fault of the request
 * (500, 503). The outcome of a verification is never an error. Detect it with {@link isKeystileError}, which also works
 * across two loaded copies of the package.
 * @see contract 2.4, 7
 */
export class KeystileError extends Error {
  /** Stable code for programs to compare. */
  readonly code: KeystileErrorCode;
  /** The matching HTTP status. */
  readonly status: number;
  /** Short summary, the same for every error of a code. */
  readonly title: string;
  /** Describes this occurrence; the same as `message`. */
  readonly detail: string;
  /** Problem type, relative to `{docs_base}/errors/`. */
  readonly type: string;
  /** Every problem with the request; empty unless the status is 400. */
  readonly errors: readonly ValidationProblem[];
  /**
   * A part of the change, or all of it, may have been made: the server did not say, or something failed after a write.
   * Look before you repeat what adds up. Absent: nothing was changed, or it does not say.
   */
  readonly outcomeUnknown?: true;

  constructor(
    code: KeystileErrorCode,
    detail: string,
    options: { errors?: readonly ValidationProblem[]; cause?: unknown; outcomeUnknown?: boolean } = {},
  ) {
    super(detail, "cause" in options ? { cause: options.cause } : undefined);
    const { status, title, type } = CATALOGUE[code];
    this.name = "KeystileError";
    this.code = code;
    this.status = status;
    this.title = title;
    this.detail = detail;
    this.type = type;
    this.errors = options.errors ?? [];
    if (options.outcomeUnknown === true) this.outcomeUnknown = true;
    Object.defineProperty(this, BRAND, { value: true });
  }
}

/**
 * Whether `value` is a {@link KeystileError} of this or another copy of the package. False for a clone
 * (`structuredClone`, or sent to another thread), which keeps the message but loses `code` and `status`.
 * `JSON.stringify` keeps everything except the stack and the cause.
 */
export function isKeystileError(value: unknown): value is KeystileError {
  return typeof value === "object" && value !== null && (value as Record<symbol, unknown>)[BRAND] === true;
}

/** A 400 error that lists every problem. `problems` must not be empty. */
export function badRequest(
  problems: readonly ValidationProblem[],
  code: KeystileErrorCode = "BAD_REQUEST",
): KeystileError {
  const { location, message } = problems[0] as ValidationProblem;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  return new KeystileError(code, `${location}: ${message}${more}`, { errors: problems });
}
