/** Request bodies of the administrative operations. Types only: the operations have their schemas. Contract 2.3, 8. */
import type { CreditsSource } from "../../lib/credits-source.js";
import type { KeyRow } from "../../contracts/store.js";
import type { JsonObject, KeyCreditsData, RatelimitRequest, Refill } from "../../contracts/types.js";
import type { ListedState } from "../../lib/key-state.js";
import type { CLEARABLE, SETTABLE } from "./key-names.js";

/** Body of `createApi`. */
export interface V2ApisCreateApiRequestBody {
  /** 3–256 code points. */
  readonly name: string;
}
/** Body of `createApi` in the library. */
export interface CreateApiRequestBody extends V2ApisCreateApiRequestBody {
  /** Its id, 8–255 characters of `[a-zA-Z0-9_]`, unique in the store; absent: a new one. */
  readonly apiId?: string;
}
/** Body of `getOrCreateApi`: the id that it has, or gets. */
export interface GetOrCreateApiRequestBody extends V2ApisCreateApiRequestBody, V2ApisGetApiRequestBody {}
/** Body of `getApi`. */
export interface V2ApisGetApiRequestBody {
  /** 8–255 characters of `[a-zA-Z0-9_]`. */
  readonly apiId: string;
}
/** Body of `deleteApi`. */
export type V2ApisDeleteApiRequestBody = V2ApisGetApiRequestBody & Explained;
/** Absent fields are unchanged. */
export interface V2ApisUpdateApiRequestBody extends V2ApisGetApiRequestBody, Explained {
  /** 3–256 code points. */
  readonly name?: string;
  /** False: every verification of its keys is FORBIDDEN. */
  readonly enabled?: boolean;
  /** Addresses and CIDR ranges that its keys may be used from; null or empty: any. At most 1,000. */
  readonly ipAllowlist?: readonly string[] | null;
}

/** Fields of a key that requests give as they are stored, under their own names. */
export type GivenKeyFields = Partial<Pick<KeyRow, (typeof SETTABLE | typeof CLEARABLE)[number]>>;
/** The same for an existing key: absent fields are unchanged, `null` clears. */
export type ChangedKeyFields = Partial<Pick<KeyRow, (typeof SETTABLE)[number]>> & {
  readonly [K in keyof Pick<KeyRow, (typeof CLEARABLE)[number]>]?: Required<KeyRow>[K] | null;
};

/** Body of `createKey`. Without `roles` and `permissions` the key satisfies no permission query. */
export interface V2KeysCreateKeyRequestBody extends GivenKeyFields {
  /** 3–255 characters of `[a-zA-Z0-9_]`. */
  readonly apiId: string;
  /** 1–16 characters of `[a-zA-Z0-9_]` before the random part, with one `_` between: `sk` and `sk_` are the same. */
  readonly prefix?: string;
  /** Random bytes, 16–255, default 16. */
  readonly byteLength?: number;
  /**
   * The identity it belongs to, created when there is none: any well-formed text of 1–255 code points without control
   * characters, such as `auth0|123` or an e-mail address. Over HTTP `[a-zA-Z0-9_.-]` alone, unless the service says
   * otherwise.
   */
  readonly externalId?: string;
  /** Names of roles that exist, at most 100. */
  readonly roles?: readonly string[];
  /** Granted directly, at most 1,000; wildcards allowed; created when they do not exist. */
  readonly permissions?: readonly string[];
  /**
   * Of its own, which cap what it takes of the credits of its identity, if that has some; `remaining` null: unlimited.
   * Absent: it draws on those of its identity alone.
   */
  readonly credits?: KeyCreditsData;
  /**
   * With `credits`: `both`, as if left out; `key`: its own alone. Without: `identity`, as if left out; `none`:
   * unlimited, whatever its identity has.
   */
  readonly creditsFrom?: CreditsSource;
  /** At most 50, names unique. */
  readonly ratelimits?: readonly RatelimitRequest[];
  /** Only false: plaintext keys are never kept. */
  readonly recoverable?: false;
}
/** Body of `createKey` in the library. */
export interface CreateKeyRequestBody extends V2KeysCreateKeyRequestBody {
  /** Milliseconds from now until it expires, 1_000…4_102_444_800_000, in place of `expires`. */
  readonly expiresIn?: number;
}
/** Asks for keys that are deleted too. */
export interface IncludesDeleted {
  /** Also a key that is deleted, or whose API is: its `state` is `deleted`. Absent: false. */
  readonly includeDeleted?: boolean;
}
/** Which key. */
export interface NamesKey {
  /** 3–255 characters of `[a-zA-Z0-9_]`. */
  readonly keyId: string;
}
/** Body of `getKey`. */
export interface V2KeysGetKeyRequestBody extends NamesKey, IncludesDeleted {
  /** Only false: plaintext keys are never kept. */
  readonly decrypt?: false;
}
/** Body of `getKeys`. */
export interface GetKeysRequestBody extends IncludesDeleted {
  /** 1–100 ids of keys. */
  readonly keyIds: readonly string[];
}
/** Body of `listKeys`. */
export interface V2KeysListKeysRequestBody extends ListRequestBody {
  /** At least 1 code point. */
  readonly apiId: string;
  /** Only keys of this identity, at least 1 code point; one that does not exist has none. */
  readonly externalId?: string;
  /** Only false: plaintext keys are never kept. */
  readonly decrypt?: false;
  /** Without effect: administration reads the store itself. */
  readonly revalidateKeysCache?: boolean;
}
/** Body of `searchKeys`: all that is given has to fit. */
export interface SearchKeysRequestBody extends ListRequestBody {
  /** Absent: keys of all APIs, for a caller of those that it may read. Required where there are more than 1,000. */
  readonly apiId?: string;
  /** Only keys of this identity. */
  readonly externalId?: string;
  /**
   * Part of the id, the `start`, the name or the externalId of the owner, at most 256 code points, ignoring case. Keys
   * of the owner with this very externalId come first: an index has these. Blank text finds all.
   */
  readonly search?: string;
  /**
   * In this {@link KeyState}; `expired` has those that were rotated away too, and `replaced` enabled keys that were
   * rotated away and whose overlap has not ended. Absent: in any but `deleted`. Keys of a deleted API are in no list.
   */
  readonly state?: ListedState;
  /** Only keys that expire before this, by their own `expires` or that of their owner; Unix time in milliseconds. */
  readonly expiresBefore?: number;
  /** Only keys that expire at this or later, by what comes first of the two; not those that never expire. */
  readonly expiresFrom?: number;
  /** Only keys that draw on a balance below this, their own or that of their identity; at least 1. */
  readonly creditsBelow?: number;
  /**
   * `made` (default): newest first. `expires`: the soonest first, by the `expires` of the keys themselves, without keys
   * that have none. `lastUsed`: the latest first, without unused ones. `credits`: the fewest first, without unlimited
   * ones. The last two have no index, which each verification would write: they look at every balance, or last use,
   * in small steps; see `maxAge`.
   */
  readonly order?: "made" | "expires" | "lastUsed" | "credits";
  /**
   * Of the orders `lastUsed` and `credits`: accept one that was worked out so many milliseconds ago, for anybody who
   * asked for the same of these APIs; its first 200 keys are kept. 0 (default) to 86,400,000. The keys
   * themselves are read anew, and those that do not fit any more are left out.
   */
  readonly maxAge?: number;
}
/**
 * Body of `changeKeys`: by ids alone, or by a filter of `searchKeys`, then a page at a time; one of them must be there.
 */
export interface ChangeKeysRequestBody
  extends Omit<SearchKeysRequestBody, "order" | "state" | "expiresFrom" | "maxAge">, Explained {
  /** 1–100 ids, in place of a filter. */
  readonly keyIds?: readonly string[];
  /** Only keys in this state. Deleted ones cannot be changed. */
  readonly state?: Exclude<ListedState, "deleted">;
  /** `delete` hides keys, as `deleteKey` does. */
  readonly action: "disable" | "enable" | "delete";
  /** Only say what would become of them. Default false. */
  readonly dryRun?: boolean;
}
/** Body of `countKeys`. */
export interface CountKeysRequestBody {
  /** Accept a count that is so many milliseconds old; 0 (default) to 86,400,000. */
  readonly maxAge?: number;
  /** Absent: all APIs, for a caller those that it may read. Required where there are more than 1,000. */
  readonly apiId?: string;
}
/** Absent fields are unchanged, `null` clears, a given list replaces the old one. */
export interface V2KeysUpdateKeyRequestBody
  extends NamesKey, ChangedKeyFields, Pick<V2KeysCreateKeyRequestBody, "roles" | "permissions">, Explained {
  /** The identity it belongs to, created when there is none, as in {@link V2KeysCreateKeyRequestBody}; null: none. */
  readonly externalId?: string | null;
  /** Of its own; null: unlimited, without refill, whatever its identity has. */
  readonly credits?: UpdateKeyCreditsData | null;
  /**
   * Of a key with credits of its own: `key`, they alone; `both`, those of its identity too, if that has some. Without
   * `credits`: `identity` gives up its own and draws on those of its identity; `none` is `credits: null`.
   */
  readonly creditsFrom?: CreditsSource;
  /** At most 50, names unique. A limit whose name stays keeps its id and the tokens already used. */
  readonly ratelimits?: readonly RatelimitRequest[];
}
/** Credits of `updateKey` and `updateIdentity`: absent fields are unchanged. */
export interface UpdateKeyCreditsData {
  /** Integer from 0 to 2^53 − 1; null: unlimited; clears the refill unless one is given. */
  readonly remaining?: number | null;
  /** null: none. */
  readonly refill?: Refill | null;
}
/** Body of `deleteKey`. */
export interface V2KeysDeleteKeyRequestBody extends NamesKey, Explained {
  /** True: its row is removed, and its hash may be imported again. Default false: it is hidden. */
  readonly permanent?: boolean;
}
/** Body of `rerollKey`: a new key with all that the old one has. */
export interface V2KeysRerollKeyRequestBody extends NamesKey, Explained {
  /** Milliseconds until the old key expires, up to 4_102_444_800_000; 0: at once. */
  readonly expiration: number;
  /** Of the new key, 1–16 characters of `[a-zA-Z0-9_]`; absent: that of the old one, as far as its `start` shows it. */
  readonly prefix?: string;
}
/** Part of the bodies of changes of keys, owners, APIs, root keys and credits. */
export interface Explained {
  /** Why, for people: 1–255 code points. The entry of the audit trail has it, and a statement shows it. */
  readonly reason?: string;
}
/** Body of `updateCredits`. `keyId` has at least 3 code points. A decrement stops at 0, an increment at 2^53 − 1. */
export type V2KeysUpdateCreditsRequestBody = Explained & { readonly keyId: string } & BalanceChange;
/** What becomes of a balance. A decrement stops at 0, an increment at 2^53 − 1. */
export type BalanceChange =
  | {
      readonly operation: "set";
      /**
       * Integer from 0 to 2^53 − 1; null, or absent: none, without refill. Then a key is unlimited, as are keys that
       * drew on those of an identity.
       */
      readonly value?: number | null;
    }
  | {
      readonly operation: "increment" | "decrement";
      /** Integer from 0 to 2^53 − 1. There must be a balance: without one it is a 400 at `body.operation`. */
      readonly value: number;
    };
/** Body of `whoami`. */
export interface V2KeysWhoamiRequestBody extends IncludesDeleted {
  /** The key itself, 1–512 code points. */
  readonly key: string;
}
/** Body of `addPermissions`, `removePermissions` and `setPermissions`. */
export interface V2KeysPermissionsRequestBody extends NamesKey, Explained {
  /** Slugs, 1–1,000; for `setPermissions` 0–1,000. Wildcards allowed. */
  readonly permissions: readonly string[];
}
/** Body of `addRoles`, `removeRoles` and `setRoles`. */
export interface V2KeysRolesRequestBody extends NamesKey, Explained {
  /** Names, 1–100, each 1–128 code points; for `setRoles` 0–100. */
  readonly roles: readonly string[];
}

/** Body of `createPermission`. */
export interface V2PermissionsCreatePermissionRequestBody {
  /** For people, 1–512 code points. */
  readonly name: string;
  /** What queries and grants compare, 1–128 characters of `[a-zA-Z0-9_:./*-]`. */
  readonly slug: string;
  /** At most 512 code points. */
  readonly description?: string;
}
/** Body of `getPermission` and `deletePermission`. */
export interface V2PermissionsGetPermissionRequestBody {
  /** Slug or id, 1–128 characters; a row with this id takes precedence over one with this slug. */
  readonly permission: string;
}
/** Body of `createRole`. */
export interface V2PermissionsCreateRoleRequestBody {
  /** 1–128 code points, unique in the workspace. */
  readonly name: string;
  /** At most 512 code points. */
  readonly description?: string;
  /** Slugs, at most 1,000, created when they do not exist. */
  readonly permissions?: readonly string[];
}
/** Body of `getRole` and `deleteRole`. */
export interface V2PermissionsGetRoleRequestBody {
  /** Name or id, 1–128 code points; a row with this id takes precedence over one with this name. */
  readonly role: string;
}
/** Body of `setRolePermissions`. */
export interface V2PermissionsSetRolePermissionsRequestBody {
  /** Id or name, 3–255 characters of `[a-zA-Z0-9_-]`; for a role with another name use its id. */
  readonly roleId: string;
  /** Slugs that replace what it has, at most 1,000, created when they do not exist. */
  readonly permissions: readonly string[];
}

/** Body of `createIdentity`. */
export interface V2IdentitiesCreateIdentityRequestBody {
  /**
   * What the program calls it, unique in the workspace: any well-formed text of 1–255 code points without control
   * characters. Over HTTP `[a-zA-Z0-9_.-]` alone, unless the service says otherwise.
   */
  readonly externalId: string;
  /** At most 64 KB, 32 levels and 100 properties, as {@link JsonObject} says. */
  readonly meta?: JsonObject;
  /** False: its keys are FORBIDDEN, whatever they are, until `updateIdentity` enables it. Default true. */
  readonly enabled?: boolean;
  /** Last instant at which its keys are valid, Unix time in milliseconds: not past, at most 4_102_444_800_000. */
  readonly expires?: number;
  /** Shared by all keys of the identity: at most 50, names unique. */
  readonly ratelimits?: readonly RatelimitRequest[];
  /** Shared by all its keys that have none of their own. Absent, or `remaining` null: none. */
  readonly credits?: KeyCreditsData;
}
/** Body of `getIdentity`. */
export interface V2IdentitiesGetIdentityRequestBody {
  /** Id or externalId, at least 1 code point; a row with this id takes precedence over one with this externalId. */
  readonly identity: string;
}
/** Body of `listIdentities`. */
export interface ListIdentitiesRequestBody extends SearchRequestBody {
  /** Also the credits of each, and how many keys it has. Default false. */
  readonly details?: boolean;
}
/** Body of `deleteIdentity`. */
export interface DeleteIdentityRequestBody extends V2IdentitiesGetIdentityRequestBody, Explained {
  /**
   * `disable`: all its keys are disabled first, those with credits of their own too. Absent: while keys draw on its
   * credits it is a 409.
   */
  readonly keys?: "disable";
}
/** Whose credits: those of an identity, by its id or externalId, or of a key. */
export type GrantOwner =
  | { readonly identity: string; readonly keyId?: never }
  | { readonly keyId: string; readonly identity?: never };
/** Body of `grantCredits`. */
export type GrantCreditsRequestBody = GrantOwner &
  Explained & {
    /** 1–255 code points, unique among the grants of the owner: the same again adds nothing. Absent: one of its own. */
    readonly grantId?: string;
    /** Integer from 1 to 2^53 − 1. */
    readonly amount: number;
    /** Unix time, milliseconds, later than now: from then on it cannot be spent, and what is left expires. */
    readonly expires?: number;
    /** Milliseconds from now until it expires, 1_000…4_102_444_800_000, in place of `expires`. */
    readonly expiresIn?: number;
    /** Its place in the draw-down order, 0–255, the lowest first; default 100, as the main account has. */
    readonly priority?: number;
    /** Credits that are added to the grant at each boundary. */
    readonly refill?: Refill;
  };
/** Body of `endGrant`. */
export type EndGrantRequestBody = GrantOwner &
  Explained & {
    /** As `grantCredits` was given it, or returned it. */
    readonly grantId: string;
  };
/** Body of `changePlan`. */
export type ChangePlanRequestBody = GrantOwner &
  Explained & {
    /** The refill from now on. */
    readonly refill: Refill;
    /**
     * `difference` adds at once what `refill.amount` is above that of the old refill, of which there may be none; a
     * smaller plan takes nothing away. Default `nothing`: the balance stays until the next boundary.
     */
    readonly now?: "difference" | "nothing";
  };
/** Body of `getBalance`. */
export type GetBalanceRequestBody = GrantOwner;
/** Body of `listGrants`. */
export type ListGrantsRequestBody = GrantOwner & {
  /** Also those that have expired or were ended, for 400 days. Absent: false. */
  readonly ended?: boolean;
};
/** Body of `updateIdentityCredits`. A decrement stops at 0, an increment at 2^53 − 1. */
export type UpdateIdentityCreditsRequestBody = V2IdentitiesGetIdentityRequestBody & Explained & BalanceChange;
/** Absent fields are unchanged, `null` clears, a given list replaces the old one. */
export interface V2IdentitiesUpdateIdentityRequestBody extends V2IdentitiesGetIdentityRequestBody, Explained {
  /** At most 64 KB, 32 levels and 100 properties, as {@link JsonObject} says; null: none. */
  readonly meta?: JsonObject | null;
  /** False: its keys are FORBIDDEN, whatever they are; true: they are as they were. */
  readonly enabled?: boolean;
  /** Last instant at which its keys are valid, Unix time in milliseconds, at most 4_102_444_800_000; null: never. */
  readonly expires?: number | null;
  /** At most 50, names unique. A limit whose name stays keeps its id and the tokens already used. */
  readonly ratelimits?: readonly RatelimitRequest[];
  /** null: none, and keys that drew on them are unlimited. */
  readonly credits?: UpdateKeyCreditsData | null;
}

/** Which page of a list. */
export interface ListRequestBody {
  /** Rows per page, 1–100, default 100. */
  readonly limit?: number | undefined;
  /** `pagination.cursor` of the page before. */
  readonly cursor?: string | undefined;
}
/** Which page of a list, of rows that hold a text. */
export interface SearchRequestBody extends ListRequestBody {
  /**
   * Part of the id, name, externalId, slug or description, at most 256 code points. Case is ignored (ASCII, and simple
   * Unicode folding); blank text finds all.
   */
  readonly search?: string | undefined;
}

/** Body of `listAudit`: which entries of the audit trail. */
export interface ListAuditRequestBody extends ListRequestBody {
  /** Only entries that name this id, of a key or of anything else. */
  readonly id?: string;
  /** Only entries of this actor: the id of a root key, the subject of a token, or who a program acted for. */
  readonly actor?: string;
  /** Only entries of this operation, such as `createKey`. */
  readonly operation?: string;
  /**
   * Only entries whose actor has this in its id, or as a root key in its name, which over HTTP takes the permission to
   * list root keys: 1–256 code points, in any case.
   */
  readonly actorSearch?: string;
  /** Only entries of this time or later, Unix time in milliseconds. */
  readonly from?: number;
  /** Only entries of before this time, Unix time in milliseconds. */
  readonly to?: number;
}

/** Body of `updateWorkspace`. */
export interface UpdateWorkspaceRequestBody extends Explained {
  /** False: every verification of its keys is FORBIDDEN. */
  readonly enabled: boolean;
}
