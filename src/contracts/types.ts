/** The specification's nouns in its own order (spec §2), units and bounds beside them. Types only: imports nothing, runs nothing. */

/** A value now or a promise of it: synchronous engines stay synchronous, callers await only what is a promise. */
export type MaybePromise<T> = T | Promise<T>;

/** Any JSON value. Ruling G7: names such as `__proto__` inside it are plain data. */
export type Json = string | number | boolean | null | readonly Json[] | JsonObject;
/**
 * A JSON object. As `meta` it may have 64 KB (65,536 bytes as UTF-8 JSON), 32 levels, and 100 properties at the top; numbers are finite, text
 * is well formed and without U+0000 (ruling G7). Write the type of your own metadata as a type alias: TypeScript refuses an interface here,
 * which has no index signature.
 */
export type JsonObject = { readonly [name: string]: Json };

/** `credits` of a verification request. Spec §2.1. */
export interface KeysVerifyKeyCredits {
  /** Credits that this verification takes, 0…1_000_000_000_000; 0 only reads. */
  readonly cost: number;
}

/** One rate limit asked for in a verification request. Spec §2.1. */
export interface KeysVerifyKeyRatelimit {
  /** 3–255 code points: the name of a limit of the key or its identity, or of an ad hoc one (ruling C5). */
  readonly name: string;
  /** Tokens this check takes, ≥ 0, default 1. */
  readonly cost?: number | undefined;
  /** Overrides the tokens allowed a window, ≥ 0. */
  readonly limit?: number | undefined;
  /** Overrides the window, milliseconds, ≥ 0. */
  readonly duration?: number | undefined;
}

/** What a caller sends to verify a key; no other property is allowed. Spec §2.1. */
export interface V2KeysVerifyKeyRequestBody {
  /** The key exactly as the user supplied it, 1–512 code points. */
  readonly key: string;
  /** At most 20 labels for analytics, each 1–512 code points; they never change the outcome (ruling A8). */
  readonly tags?: readonly string[] | undefined;
  /** Permission query with `AND`, `OR` and parentheses, 1–1000 code points (ruling B1). */
  readonly permissions?: string | undefined;
  /** Absent: a cost of 1 (ruling D1). */
  readonly credits?: KeysVerifyKeyCredits | undefined;
  /** Limits to check besides the automatic ones (ruling C1). */
  readonly ratelimits?: readonly KeysVerifyKeyRatelimit[] | undefined;
  /** Migration under which a key unknown so far may have been imported, at most 256 code points (ruling E4). */
  readonly migrationId?: string | undefined;
}

/** The outcomes of a verification in the order in which they are decided (ruling A1). Spec §2.2. */
export type VerificationCode =
  | "NOT_FOUND"
  | "DISABLED"
  | "EXPIRED"
  | "FORBIDDEN"
  | "INSUFFICIENT_PERMISSIONS"
  | "RATE_LIMITED"
  | "USAGE_EXCEEDED"
  | "VALID";

/** `code` as clients should read it: the known outcomes, and room for future ones. Spec §2.2. */
export type V2KeysVerifyKeyCode = VerificationCode | (string & Record<never, never>);

/** A rate limit as it stands on a key or an identity. Spec §2.2. */
export interface RatelimitResponse {
  /** `rl_…`, 8–255 characters. */
  readonly id: string;
  /** 1–128 code points. */
  readonly name: string;
  /** Requests a window, 1…1_000_000 in answers. */
  readonly limit: number;
  /** Window, milliseconds, 1_000…2_592_000_000 in answers. */
  readonly duration: number;
  /** Whether every verification checks it without being asked. */
  readonly autoApply: boolean;
}

/** The entity that a key belongs to. Spec §2.2. */
export interface Identity {
  /** `id_` and 22 characters of `[a-zA-Z0-9]`. */
  readonly id: string;
  /** The caller's own id of the entity, 1–255 code points. */
  readonly externalId: string;
  /** As given ({@link JsonObject}). */
  readonly meta?: JsonObject;
  /** Limits shared by all keys of the identity; absent when there are none. */
  readonly ratelimits?: readonly RatelimitResponse[];
}

/** The result of one rate-limit check. Spec §2.2. */
export interface VerifyKeyRatelimitData {
  /** Whether this check did not fit, after earlier ones of its bucket in this call. If any did not, none takes tokens (ruling C3). */
  readonly exceeded: boolean;
  /** `rl_…`, 8–255 characters. */
  readonly id: string;
  /** 1–128 code points. */
  readonly name: string;
  /** Brought into 1…1_000_000 (ruling C4). */
  readonly limit: number;
  /** Milliseconds, brought into 1_000…2_592_000_000 (ruling C4). */
  readonly duration: number;
  /** Milliseconds until the bucket is full, brought into 1_000…2_592_000_000 (ruling C4). */
  readonly reset: number;
  /** Whole tokens left after the call, 0…1_000_000. */
  readonly remaining: number;
  /** Whether the limit is checked without being asked for; false of an ad hoc one (rulings C1, C5). */
  readonly autoApply: boolean;
}

/** The answer of a verification; a property that does not apply is not there at all (ruling A5). Spec §2.2. */
export interface V2KeysVerifyKeyResponseData {
  /** True only with code VALID. */
  valid: boolean;
  /** The first check that failed, or VALID: {@link VerificationCode}. Tolerate values to come. */
  code: V2KeysVerifyKeyCode;
  /** Present unless the code is NOT_FOUND. */
  keyId?: string;
  /** 1–255 code points; absent: it has none. */
  name?: string;
  /** As given ({@link JsonObject}); absent: it has none. */
  meta?: JsonObject;
  /** Unix time, milliseconds, the last at which it is valid (ruling A3); absent: never expires. */
  expires?: number;
  /** Balance after this call (ruling A6); absent: unlimited. */
  credits?: number;
  /** Present unless the code is NOT_FOUND. */
  enabled?: boolean;
  /** All permission names, sorted; present when a query was evaluated, and with FORBIDDEN. */
  permissions?: string[];
  /** All role names, sorted; present when a query was evaluated. */
  roles?: string[];
  /** The entity that the key belongs to; absent: none. */
  identity?: Identity;
  /** The limits that were checked; absent when none was. */
  ratelimits?: VerifyKeyRatelimitData[];
}

/** Automatic refill of credits. Spec §2.3, ruling D3. */
export type Refill =
  | {
      /** Adds at 00:00 UTC of every day. */
      readonly interval: "daily";
      /** Credits added per boundary passed, 1…2^53 − 1. */
      readonly amount: number;
      /** 1–31; accepted, without effect (ruling D4). */
      readonly refillDay?: number;
    }
  | {
      /** Adds at 00:00 UTC of every month's `refillDay`. */
      readonly interval: "monthly";
      /** Credits added per boundary passed, 1…2^53 − 1. */
      readonly amount: number;
      /** 1–31; the month's last day where it is shorter. */
      readonly refillDay: number;
    };

/** Credits of a key as administration gives and shows them. Spec §2.3. */
export interface KeyCreditsData {
  /** 0…2^53 − 1; null: unlimited. */
  readonly remaining: number | null;
  /** Absent: none. An unlimited key ignores its refill (ruling D3). */
  readonly refill?: Refill;
}

/** A rate limit as administration gives it. Spec §2.3. */
export interface RatelimitRequest {
  /** 3–128 code points, unique within the key or identity. */
  readonly name: string;
  /** Tokens a window, 1…2^53 − 1. */
  readonly limit: number;
  /** Window, milliseconds, 1_000…2^53 − 1. */
  readonly duration: number;
  /** Default false. */
  readonly autoApply?: boolean;
}

/** A key that was hashed elsewhere. Spec §2.3. */
export interface V2KeysMigrateKeyData {
  /** The existing hash, 3–1,024 code points, stored as given. */
  readonly hash: string;
  /** 1–255 code points. */
  readonly name?: string;
  /** The identity it belongs to, made when there is none: 1–255 code points. */
  readonly externalId?: string;
  /** At most 64 KB, 32 levels and 100 properties, as {@link JsonObject} says. */
  readonly meta?: JsonObject;
  /** Names of roles that exist already, at most 100. */
  readonly roles?: readonly string[];
  /** Granted directly, at most 1,000; wildcards allowed (ruling B3); made when they do not exist. */
  readonly permissions?: readonly string[];
  /** Unix time, milliseconds, at most 8_640_000_000_000_000. */
  readonly expires?: number;
  /** Default true. */
  readonly enabled?: boolean;
  /** Absent: unlimited. */
  readonly credits?: KeyCreditsData;
  /** At most 50, names unique. Here `autoApply` is required. */
  readonly ratelimits?: readonly Required<RatelimitRequest>[];
}
