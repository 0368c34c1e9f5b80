/**
 * Requests of the operations on root keys, namespaces and rate limits. Types only: the operations have their schemas.
 * Contract 5, 8.
 */
import type { Explained, ListRequestBody } from "./requests.js";

/** Body of `createRootKey`. */
export interface CreateRootKeyRequestBody {
  /** 1–255 code points. */
  readonly name?: string;
  /**
   * What its bearer may do, at most 1,000, each at most 1,024 code points: `api.*.verify_key` or
   * `svc:v1:<workspace>:keyspaces/*#create_key` (contract 5.4).
   * What could never grant anything is a 400, also an action on keys with a path that covers none
   * (`keyspaces/*#verify_key`). Actions of other names are accepted: a program may ask for its own. None at all is a
   * root key that may do nothing.
   */
  readonly permissions: readonly string[];
  /** Unix time, milliseconds, up to 4_102_444_800_000; absent: never. */
  readonly expires?: number;
  /** Default true. */
  readonly enabled?: boolean;
}
/** Absent fields are unchanged, `null` clears, a given list replaces the old one. */
export interface UpdateRootKeyRequestBody extends DeleteRootKeyRequestBody {
  /** 1–255 code points; null: none. */
  readonly name?: string | null;
  /** What its bearer may do, at most 1,000, each as in {@link CreateRootKeyRequestBody.permissions}. */
  readonly permissions?: readonly string[];
  /** Unix time, milliseconds, up to 4_102_444_800_000; null: never. */
  readonly expires?: number | null;
  /** False: it authenticates nobody. */
  readonly enabled?: boolean;
}
/** Body of `deleteRootKey`. */
export interface DeleteRootKeyRequestBody extends Explained {
  /** 3–255 characters of `[a-zA-Z0-9_]`. */
  readonly rootKeyId: string;
}

/** Body of `createNamespace`. */
export interface CreateNamespaceRequestBody {
  /** 1–512 code points, no control characters, unique in the workspace. */
  readonly name: string;
}
/** Which namespace. */
export interface GetNamespaceRequestBody {
  /**
   * Id or name, 1–512 code points; a namespace with this id takes precedence over one with this name. `limit`,
   * `multiLimit` and `setOverride`, which create one, take no control characters.
   */
  readonly namespace: string;
}
/** Body of `limit`: one bucket of a namespace. */
export interface V2RatelimitLimitRequestBody extends V2RatelimitGetOverrideRequestBody {
  /** Tokens per window, 1…2^53 − 1; an override of this identifier replaces it. */
  readonly limit: number;
  /** Window, milliseconds, 1_000…2_592_000_000; an override replaces it. */
  readonly duration: number;
  /** Tokens to take, 0…2^53 − 1, default 1; 0 only reads. */
  readonly cost?: number;
}
/** 1–100 checks. */
export type V2RatelimitMultiLimitRequestBody = readonly V2RatelimitLimitRequestBody[];
/** Body of `getOverride`: which identifier of a namespace. */
export interface V2RatelimitGetOverrideRequestBody extends GetNamespaceRequestBody {
  /** Who is limited, 1–512 code points, compared exactly. */
  readonly identifier: string;
}
/** Body of `deleteOverride`. */
export type V2RatelimitDeleteOverrideRequestBody = V2RatelimitGetOverrideRequestBody;
/**
 * Replaces the limit and the window of one identifier, or of all that one with `*` stands for, whatever a check asks
 * for.
 */
export interface V2RatelimitSetOverrideRequestBody extends V2RatelimitGetOverrideRequestBody {
  /** Tokens per window, 0…2^53 − 1; 0: nothing passes. */
  readonly limit: number;
  /** Window, milliseconds, 1_000…2^53 − 1. */
  readonly duration: number;
}
/** Body of `listOverrides`. Here `limit` is 10 by default. */
export interface V2RatelimitListOverridesRequestBody extends ListRequestBody, GetNamespaceRequestBody {}
