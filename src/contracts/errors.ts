/** What went wrong, as a value: one catalogue and one error. Spec §2.4, §7. Knows nothing of keys; no text here ever holds a secret (ruling G4). */

/** One fault of a request. Spec §2.4. */
export interface ValidationProblem {
  /** JSON path, such as `body.ratelimits[1].name`. */
  readonly location: string;
  /** The rule that was violated. Never repeats the value. */
  readonly message: string;
  /** What would be right, where that is plain. */
  readonly fix?: string;
}

interface Kind {
  readonly status: number;
  readonly title: string;
  /** Path of the problem type below `{docs_base}/errors/`. */
  readonly type: string;
}

const kind = (status: number, title: string, type: string): Kind => ({ status, title, type });

/** Every fault that keystile reports, by its stable code. */
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
  PAYLOAD_TOO_LARGE: kind(413, "Content Too Large", "user/bad_request/payload_too_large"),
  UNSUPPORTED_MEDIA_TYPE: kind(415, "Unsupported Media Type", "user/bad_request/unsupported_media_type"),
  TOO_MANY_REQUESTS: kind(429, "Too Many Requests", "user/too_many_requests"),
  HEADERS_TOO_LARGE: kind(431, "Request Header Fields Too Large", "user/bad_request/headers_too_large"),
  INTERNAL: kind(500, "Internal Server Error", "application/internal"),
  VERIFIER_CLOSED: kind(500, "Internal Server Error", "application/verifier_closed"),
  CREDITS_NOT_RETURNED: kind(500, "Internal Server Error", "application/credits_not_returned"),
  LIMITER_UNAVAILABLE: kind(503, "Service Unavailable", "application/limiter_unavailable"),
  STORE_BUSY: kind(503, "Service Unavailable", "application/store_busy"),
  STORE_CLOSED: kind(500, "Internal Server Error", "application/store_closed"),
  STORE_READ_ONLY: kind(500, "Internal Server Error", "application/store_read_only"),
  STORE_TIMEOUT: kind(503, "Service Unavailable", "application/store_timeout"),
  STORE_FULL: kind(500, "Internal Server Error", "application/store_full"),
  STORE_INVALID: kind(500, "Internal Server Error", "application/store_invalid"),
  STORE_SCHEMA_NEWER: kind(500, "Internal Server Error", "application/store_schema_newer"),
  STORE_FAILED: kind(500, "Internal Server Error", "application/store_failed"),
  DRIVER_MISSING: kind(500, "Internal Server Error", "application/driver_missing"),
  DRIVER_UNSUPPORTED: kind(500, "Internal Server Error", "application/driver_unsupported"),
} as const satisfies Record<string, Kind>;

/**
 * Stable codes of {@link KeystileError}. Spec §7.
 *
 * 400, `errors` says where:
 * - `BAD_REQUEST`: the request breaks its schema, or names a limit or an algorithm that does not exist.
 * - `PERMISSIONS_QUERY_SYNTAX`: the permission query does not parse, at `body.permissions` (rulings B1, B2).
 *
 * 401, from an authenticator:
 * - `AUTH_MISSING`: no credential was sent.
 * - `AUTH_MALFORMED`: the `Authorization` header is not one `Bearer` and one token (ruling F2).
 * - `AUTH_KEY_NOT_FOUND`: the root key is unknown, deleted, disabled, expired or no root key; which of these is not told.
 * - `AUTH_TOKEN_INVALID`: the proxy token's signature, times or claims do not hold (ruling F3).
 *
 * 403 to 429:
 * - `CALLER_FORBIDDEN`: the caller is known and lacks the permission for this (spec §4.1-4, §5.4).
 * - `PROTECTED_RESOURCE`: named by the specification; nothing throws it so far.
 * - `NOT_FOUND`: unknown, deleted or not yours to see, which is not told apart (ruling F4); from a server also an unknown path.
 * - `METHOD_NOT_ALLOWED`: from a server: the path takes other methods, which `Allow` names (ruling G1).
 * - `REQUEST_TIMEOUT`: from a server: the request did not arrive in time.
 * - `CONFLICT`: the name, or the id given, exists already.
 * - `PAYLOAD_TOO_LARGE`: from a server: the body is over its bound, 1 MiB unless configured (ruling G1).
 * - `UNSUPPORTED_MEDIA_TYPE`: from a server: the body is not plain `application/json` in UTF-8.
 * - `TOO_MANY_REQUESTS`: from a server: the workspace has made its requests; `Retry-After` says for how many seconds (ruling F5).
 * - `HEADERS_TOO_LARGE`: from a server: the headers are over its bound.
 *
 * 500 and 503, no fault of the request; `cause` may say more:
 * - `INTERNAL`: from a server: something else was thrown, which `onError` was told; the client learns nothing of it.
 * - `VERIFIER_CLOSED`: the verifier was closed.
 * - `CREDITS_NOT_RETURNED`: from `close()`: the store did not take back leased credits in time, or failed while it did; `detail` says how many.
 * - `LIMITER_UNAVAILABLE`: the limiter does not answer and the program chose `deny` (ruling C7), or a memory limiter was closed.
 * - `STORE_BUSY`: other writers were in the way for too long; what was asked was not done, try again.
 * - `STORE_CLOSED`: the store, or its handle, was closed.
 * - `STORE_READ_ONLY`: the database may not be written; nothing was changed.
 * - `STORE_TIMEOUT`: a store of the program's own did not answer in time (`storeTimeout`); a write may have been made or not.
 * - `STORE_FULL`: the disk or the database is full; nothing was changed.
 * - `STORE_INVALID`: the file is damaged, or no database; restore it from a copy. Or a store of the program's own returned what breaks
 *   the types of the port: `detail` names the method and the field.
 * - `STORE_SCHEMA_NEWER`: a later version of keystile wrote the file; open it with that one.
 * - `STORE_FAILED`: anything else that went wrong in a store; a write may have been made or not.
 * - `DRIVER_MISSING`: better-sqlite3 is not installed; `detail` says what to run.
 * - `DRIVER_UNSUPPORTED`: this better-sqlite3 does not run here, or is not loaded; `detail` says what to run.
 */
export type KeystileErrorCode = keyof typeof CATALOGUE;

/** One problem type as documentation shows it. Spec §2.4, §7. */
export interface ProblemType extends Kind {
  /** The stable code, which has this type to itself. */
  readonly code: KeystileErrorCode;
}

/** Every problem type once, ordered by status, for pages of documentation and for schemas (ruling G3). */
export function listProblemTypes(): ProblemType[] {
  const types = Object.entries(CATALOGUE).map(([code, entry]) => ({ ...entry, code: code as KeystileErrorCode }));
  return types.sort((a, b) => a.status - b.status);
}

const BRAND = Symbol.for("keystile.VerifierError");

/**
 * The one error of keystile: a caller's fault (status 400–431) or a store or limiter that failed (status 500, 503).
 * Outcomes of a verification are never errors. Recognise it with {@link isKeystileError}, which also works when two copies
 * of the package are loaded.
 * @see spec §2.4, §7
 */
export class KeystileError extends Error {
  /** Stable, for programs. */
  readonly code: KeystileErrorCode;
  /** HTTP status that fits. */
  readonly status: number;
  /** Short summary, constant per code. */
  readonly title: string;
  /** This occurrence in words; the same as `message`. */
  readonly detail: string;
  /** Problem type, relative to `{docs_base}/errors/` (ruling G3). */
  readonly type: string;
  /** Every fault of the request; empty unless the status is 400. */
  readonly errors: readonly ValidationProblem[];

  constructor(
    code: KeystileErrorCode,
    detail: string,
    options: { errors?: readonly ValidationProblem[]; cause?: unknown } = {},
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
    Object.defineProperty(this, BRAND, { value: true });
  }
}

/**
 * Whether `value` is a {@link KeystileError} of this or of another copy of the package. Of an error that was cloned (`structuredClone`, or
 * sent to another thread) it is false: the clone has the message, but neither code nor status. `JSON.stringify` of it keeps all but the
 * stack and the cause.
 */
export function isKeystileError(value: unknown): value is KeystileError {
  return typeof value === "object" && value !== null && (value as Record<symbol, unknown>)[BRAND] === true;
}

/** A 400 that lists every fault found. `problems` must not be empty. */
export function badRequest(
  problems: readonly ValidationProblem[],
  code: KeystileErrorCode = "BAD_REQUEST",
): KeystileError {
  const { location, message } = problems[0] as ValidationProblem;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  return new KeystileError(code, `${location}: ${message}${more}`, { errors: problems });
}
