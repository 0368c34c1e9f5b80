/** The specification's types in its own order (contract 2), with units and bounds. Types only. */

/** A value or a promise of it: synchronous stores stay synchronous, and callers await only what is a promise. */
export type MaybePromise<T> = T | Promise<T>;

/** Any JSON value. Property names such as `__proto__` are plain data. */
export type Json = string | number | boolean | null | readonly Json[] | JsonObject;
/**
 * A JSON object. As `meta` it is limited to 64 KB (65,536 bytes as UTF-8 JSON), 32 levels, and 100 top-level
 * properties; numbers are finite, and text is well formed and without U+0000. Integers above 2^53 − 1 come out of
 * `JSON.parse` rounded: store such ids as text. Declare the type of your metadata as a type alias: an interface has no
 * index signature, so TypeScript rejects it here.
 */
export type JsonObject = { readonly [name: string]: Json };

/** `credits` of a verification request. Contract 2.1. */
export interface KeysVerifyKeyCredits {
  /** Credits to take, 0…1_000_000_000_000; 0 only reads the balance. */
  readonly cost: number;
}

/** One rate limit to check in a verification request. Contract 2.1. */
export interface KeysVerifyKeyRatelimit {
  /**
   * 3–255 code points: the name of a limit of the key or its identity. Any other name needs `limit` and `duration`,
   * which then form an ad hoc limit for this request.
   */
  readonly name: string;
  /** Tokens to take, 0…2^53 − 1, default 1. */
  readonly cost?: number | undefined;
  /** Overrides the tokens per window, 0…2^53 − 1. */
  readonly limit?: number;
  /** Overrides the window, milliseconds, 0…2^53 − 1. */
  readonly duration?: number;
}

/** What a caller sends to verify a key; no other property is allowed. Contract 2.1. */
export interface V2KeysVerifyKeyRequestBody {
  /** The key exactly as the user supplied it, 1–512 code points. */
  readonly key: string;
  /** At most 20 labels for analytics, each 1–512 code points; they never affect the outcome. */
  readonly tags?: readonly string[] | undefined;
  /** Permission query with `AND`, `OR` and parentheses, 1–1000 code points. */
  readonly permissions?: string;
  /** Absent: a cost of 1. */
  readonly credits?: KeysVerifyKeyCredits | undefined;
  /** Limits to check in addition to the automatic ones, at most 1,000. */
  readonly ratelimits?: readonly KeysVerifyKeyRatelimit[];
  /** Migration under which an unknown key may have been imported, at most 256 code points. */
  readonly migrationId?: string | undefined;
}

/** The outcomes of a verification, in the order in which the checks run. Contract 2.2. */
export type VerificationCode =
  | "NOT_FOUND"
  | "DISABLED"
  | "EXPIRED"
  | "FORBIDDEN"
  | "INSUFFICIENT_PERMISSIONS"
  | "RATE_LIMITED"
  | "USAGE_EXCEEDED"
  | "VALID";

/** `code` as clients should read it: the known outcomes, and any that may be added. Contract 2.2. */
export type V2KeysVerifyKeyCode = VerificationCode | (string & Record<never, never>);

/** A rate limit of a key or an identity. Contract 2.2. */
export interface RatelimitResponse {
  /** `rl_…`, 8–255 characters. */
  readonly id: string;
  /** 1–128 code points. */
  readonly name: string;
  /** Tokens per window; clamped to 1…1_000_000 in responses. */
  readonly limit: number;
  /** Window, milliseconds; clamped to 1_000…2_592_000_000 in responses. */
  readonly duration: number;
  /** Whether every verification checks it, even if the request does not name it. */
  readonly autoApply: boolean;
}

/** The entity that a key belongs to. Contract 2.2. */
export interface Identity {
  /** `id_` followed by 22 characters of `[a-zA-Z0-9]`. */
  readonly id: string;
  /** The caller's own id for the entity, 1–255 code points. */
  readonly externalId: string;
  /** As stored ({@link JsonObject}). */
  readonly meta?: JsonObject;
  /** Limits shared by all keys of the identity; absent when there are none. */
  readonly ratelimits?: readonly RatelimitResponse[];
}

/** The result of one rate-limit check. An ad hoc limit has `autoApply` false. Contract 2.2. */
export interface VerifyKeyRatelimitData extends RatelimitResponse {
  /**
   * Whether this check did not fit, after earlier checks of the same bucket in this call. If any check is exceeded,
   * none takes tokens.
   */
  readonly exceeded: boolean;
  /** Milliseconds until the bucket is full, clamped to 1_000…2_592_000_000. */
  readonly reset: number;
  /** Whole tokens left after the call, 0…1_000_000. */
  readonly remaining: number;
}

/**
 * The result of a verification as a server sends it; a property that does not apply is absent. Contract 2.2. A later
 * server may send codes that are unknown here: a verifier in your own process returns {@link VerificationResult}.
 */
export interface V2KeysVerifyKeyResponseData<Meta = JsonObject> {
  /** True only with code VALID. */
  valid: boolean;
  /** The first check that failed, or VALID: {@link VerificationCode}. Clients should tolerate unknown values. */
  code: V2KeysVerifyKeyCode;
  /** Present unless the code is NOT_FOUND. */
  keyId?: string;
  /** 1–255 code points; absent: none. */
  name?: string;
  /** As stored ({@link JsonObject}), or what the verifier's schema made of it; absent: none. */
  meta?: Meta;
  /** Last instant at which the key is valid, Unix time in milliseconds; absent: never expires. */
  expires?: number;
  /** Balance after this call; absent: unlimited. */
  credits?: number;
  /** Present unless the code is NOT_FOUND. */
  enabled?: boolean;
  /**
   * All permission names, sorted; present when a query was evaluated, and with FORBIDDEN. Never a part of them: absent
   * if they make more than 1 MiB of JSON, as roles that grow may do; the query is decided by all of them nevertheless.
   */
  permissions?: string[];
  /** All role names, sorted; present when a query was evaluated. */
  roles?: string[];
  /** The entity that the key belongs to; absent: none. */
  identity?: Identity;
  /** The limits that were checked; absent when none were. */
  ratelimits?: VerifyKeyRatelimitData[];
}

/** The result for a key that passed every check. */
export interface VerifiedKey<Meta = JsonObject> extends V2KeysVerifyKeyResponseData<Meta> {
  valid: true;
  code: "VALID";
  keyId: string;
  enabled: boolean;
}
/** The result for a key that exists and failed a check. */
export interface RefusedKey<Meta = JsonObject> extends V2KeysVerifyKeyResponseData<Meta> {
  valid: false;
  /** The first check that failed. */
  code: Exclude<VerificationCode, "VALID" | "NOT_FOUND">;
  keyId: string;
  enabled: boolean;
}
/** The result for a key that does not exist, or may not be seen here: nothing else is told. */
export type UnknownKey = {
  [K in Exclude<keyof V2KeysVerifyKeyResponseData, "valid" | "code">]?: never;
} & { valid: false; code: "NOT_FOUND" };
/**
 * What `verify` resolves to, told apart by `valid` or by `code`, which has the eight values of
 * {@link VerificationCode}: after `if (result.valid)` `keyId` is a string, and a `switch` over `code` can be
 * exhaustive.
 */
export type VerificationResult<Meta = JsonObject> = VerifiedKey<Meta> | RefusedKey<Meta> | UnknownKey;

/** Automatic refill of credits. Contract 2.3. */
export type Refill = RefillTerms &
  (
    | {
        /** Refills at every full hour. */
        readonly interval: "hourly";
        readonly refillDay?: never;
      }
    | {
        /** Refills when a day begins. */
        readonly interval: "daily";
        /** 1–31; accepted but ignored. */
        readonly refillDay?: number;
      }
    | {
        /** Refills when `refillDay` of every week begins. */
        readonly interval: "weekly";
        /** 1–7, from Monday on. */
        readonly refillDay: number;
      }
    | {
        /** Refills when `refillDay` of every month begins. */
        readonly interval: "monthly";
        /** 1–31; the last day of a month that is shorter. */
        readonly refillDay: number;
      }
  );

/** What refills of every interval have. */
export interface RefillTerms {
  /** Credits added per refill, 1…2^53 − 1. */
  readonly amount: number;
  /**
   * IANA name of the time zone in which hours and days begin, such as `Europe/Berlin`, as far as the runtime knows it.
   * Default UTC. A midnight that the zone skips is the first instant after it; one that comes twice counts once.
   */
  readonly timeZone?: string;
  /**
   * How much of the balance stays when a refill comes, 0…2^53 − 1: the rest expires. 0: what is left of the last period
   * expires. Absent: all of it stays.
   */
  readonly rollover?: number;
}

/** Credits of a key, in administration requests and responses. Contract 2.3. */
export interface KeyCreditsData {
  /** 0…2^53 − 1; null: unlimited. */
  readonly remaining: number | null;
  /** Absent: none. Ignored while credits are unlimited. */
  readonly refill?: Refill;
}

/** A rate limit in administration requests. Contract 2.3. */
export interface RatelimitRequest {
  /** 3–128 code points, unique within the key or identity. */
  readonly name: string;
  /** Tokens per window, 1…2^53 − 1. */
  readonly limit: number;
  /** Window, milliseconds, 1_000…2^53 − 1. */
  readonly duration: number;
  /** Whether every verification takes from it. Default false: it limits only requests that name it. */
  readonly autoApply?: boolean;
}

/** A key that was hashed elsewhere, to import. Contract 2.3. */
export interface V2KeysMigrateKeyData {
  /**
   * The existing hash, at least 3 code points, stored as given. One of more than 1,024 bytes of UTF-8 is a hash of no
   * algorithm: its key fails alone, as INVALID_HASH.
   */
  readonly hash: string;
  /** 1–255 code points. */
  readonly name?: string;
  /** External id of its identity, which is created if it does not exist: 1–255 code points, no control characters. */
  readonly externalId?: string;
  /** At most 64 KB, 32 levels and 100 properties ({@link JsonObject}). */
  readonly meta?: JsonObject;
  /** Names of existing roles, at most 100. */
  readonly roles?: readonly string[];
  /** Permissions to grant directly, at most 1,000; wildcards allowed; created if they do not exist. */
  readonly permissions?: readonly string[];
  /** Unix time, milliseconds, at most 8_640_000_000_000_000. */
  readonly expires?: number;
  /** Default true. */
  readonly enabled?: boolean;
  /** Absent: unlimited. */
  readonly credits?: KeyCreditsData;
  /** At most 50, with unique names. `autoApply` is required here. */
  readonly ratelimits?: readonly Required<RatelimitRequest>[];
}
