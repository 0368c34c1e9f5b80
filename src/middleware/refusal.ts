/** Refusals: what a client is told, as status, headers and a problem+json body (RFC 6750, RFC 9457). */
import type { V2KeysVerifyKeyResponseData } from "../contracts/types.js";
import { retryAfter } from "../verify/result-retry-after.js";
import { toSeconds, withRatelimitFields } from "./ratelimit-fields.js";

interface Kind {
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  /** `WWW-Authenticate`. */
  readonly challenge?: string;
}

const INVALID = 'Bearer error="invalid_token"';
const unauthorized = (detail: string, challenge = INVALID): Kind => ({
  status: 401,
  title: "Unauthorized",
  detail,
  challenge,
});

const KINDS = {
  KEY_MISSING: unauthorized("No API key was sent, or not with the scheme Bearer.", "Bearer"),
  KEY_INVALID: unauthorized("The API key is not valid."),
  NOT_FOUND: unauthorized("The API key does not exist."),
  DISABLED: unauthorized("The API key is disabled."),
  EXPIRED: unauthorized("The API key has expired."),
  FORBIDDEN: { status: 403, title: "Forbidden", detail: "The API key may not be used here." },
  INSUFFICIENT_PERMISSIONS: {
    status: 403,
    title: "Forbidden",
    detail: "The API key lacks a permission.",
    challenge: 'Bearer error="insufficient_scope"',
  },
  RATE_LIMITED: { status: 429, title: "Too Many Requests", detail: "A rate limit of the API key is exceeded." },
  USAGE_EXCEEDED: { status: 429, title: "Too Many Requests", detail: "The API key has too few credits left." },
  INTERNAL: { status: 500, title: "Internal Server Error", detail: "The request could not be handled." },
  UNAVAILABLE: { status: 503, title: "Service Unavailable", detail: "API keys can't be verified at the moment." },
} as const satisfies Record<string, Kind>;

/**
 * Why a request was refused. Besides codes of a verification:
 * - `KEY_MISSING` (401): no credential was sent.
 * - `KEY_INVALID` (401): the key is unknown, disabled, expired, too long or malformed. The client is not told which.
 * - `INTERNAL` (500): a mistake of the program, such as a function that threw or a limit that does not exist.
 * - `UNAVAILABLE` (503): the store or the limiter failed, or the verifier was closed.
 */
export type RefusalCode = keyof typeof KINDS;

/** A refusal, ready to be sent. Holds nothing that the client must not see. */
export interface Refusal {
  readonly code: RefusalCode;
  /** HTTP status: 401, 402, 403, 429, 500 or 503. */
  readonly status: number;
  /** Reason phrase of the status. */
  readonly title: string;
  /** One sentence for the client's developer. */
  readonly detail: string;
  /**
   * Milliseconds until the same call could pass its rate limits, or until the refill that covers it; undefined:
   * unknown, or waiting does not help.
   */
  readonly retryAfter: number | undefined;
  /** Credits that are left, of USAGE_EXCEEDED whose next refill is known. */
  readonly credits?: number;
  /** `WWW-Authenticate`, `Retry-After`, `RateLimit` and the like; without `Content-Type`. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A rendered body. */
export interface RefusalBody {
  /** Its `Content-Type`. */
  readonly type: string;
  readonly body: string;
}

/** How refusals look. */
export interface RefusalOptions {
  /** Tell NOT_FOUND, DISABLED and EXPIRED apart. Default false: all are KEY_INVALID. */
  readonly reveal?: boolean | undefined;
  /** Name the permissions that the query asks for, as `scope` of `WWW-Authenticate`. Default false. */
  readonly scope?: boolean | undefined;
  /** Status when a key has too few credits: 429 (default) or 402. */
  readonly usageExceeded?: 402 | 429 | undefined;
  /** Send `X-RateLimit-Limit`, `-Remaining` and `-Reset` (Unix time, seconds) too, for old clients. Default false. */
  readonly legacyHeaders?: boolean | undefined;
}

/** `Retry-After` of a 503. */
const BUSY_SECONDS = "1";

const isRefusalCode = (code: string): code is RefusalCode => Object.hasOwn(KINDS, code);
const LOOK_ALIKE: readonly string[] = ["NOT_FOUND", "DISABLED", "EXPIRED"];

/**
 * @param code of a result, or of {@link RefusalCode}; one that is not known here is FORBIDDEN
 * @param result of the verification, if there was one
 * @param query the permission query, if there was one
 */
export function createRefusal(
  code: string,
  options: RefusalOptions,
  result?: V2KeysVerifyKeyResponseData<unknown>,
  query?: string,
): Refusal {
  const isHidden = options.reveal !== true && LOOK_ALIKE.includes(code);
  const shown = isHidden ? "KEY_INVALID" : isRefusalCode(code) ? code : "FORBIDDEN";
  const { title, detail, challenge, ...kind }: Kind = KINDS[shown];
  const isUnpaid = shown === "USAGE_EXCEEDED" && options.usageExceeded === 402;
  const wait = result && retryAfter(result);
  // Less than a second is told as one: a client that does not wait at all would only be refused again.
  const seconds = shown === "UNAVAILABLE" ? BUSY_SECONDS : wait !== undefined && `${Math.max(1, toSeconds(wait))}`;
  const scope = shown === "INSUFFICIENT_PERMISSIONS" && options.scope === true && scopeOf(query);
  const headers = {
    "Cache-Control": "no-store",
    ...(challenge !== undefined && { "WWW-Authenticate": scope ? `${challenge}, scope="${scope}"` : challenge }),
    ...(seconds !== false && { "Retry-After": seconds }),
  };
  return {
    code: shown,
    status: isUnpaid ? 402 : kind.status,
    title: isUnpaid ? "Payment Required" : title,
    detail,
    retryAfter: wait,
    ...(shown === "USAGE_EXCEEDED" && wait !== undefined && { credits: result?.credits ?? 0 }),
    headers: withRatelimitFields(headers, result?.ratelimits, options.legacyHeaders === true, Date.now),
  };
}

/** The names of a query that parses: they hold no character that a scope must not. */
function scopeOf(query = ""): string {
  const names = query.split(/[\s()]+/).filter((word) => word !== "" && !/^(?:and|or)$/i.test(word));
  return [...new Set(names)].join(" ");
}

/** RFC 9457: the type is about:blank, since the status and `code` say it all. */
export function renderProblem({ status, title, detail, code, credits }: Refusal): RefusalBody {
  return {
    type: "application/problem+json",
    body: JSON.stringify({ type: "about:blank", title, status, detail, code, credits }),
  };
}
