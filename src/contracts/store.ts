/**
 * The Store port: what keystile needs from the database that holds the keys. Types only. Contract 2.
 *
 * Why two halves: *finding* a key returns what rarely changes and may be cached; *spending* handles what changes with
 * every call. Every rule of administration is in `keyring/`, so a store holds rows, names and balances and follows only
 * these clauses.
 *
 * The contract (`storeSuite` of `keystile/testing` tests each clause on any store, but clause 9, which is for caches):
 *  1. Something unknown is `undefined`, or absent from a list; never an error.
 *  2. Digests, ids and names match exactly and case-sensitively, without Unicode normalisation. To a read, one that
 *     holds U+0000 or an unpaired surrogate is as any other that is unknown: it is neither an error nor equal to
 *     another.
 *  3. Any row survives a round trip: Unicode, empty lists, 0, absent properties, `__proto__` and U+0000 inside meta,
 *     the order of its names, credits up to 2^53 − 1.
 *  4. `insertKeys` reports each duplicate separately; the others are inserted.
 *  5. Concurrent spends never grant more than the balance; a cost above the balance takes nothing. Calls that are in
 *     flight at once may take effect, and settle, in any order.
 *  6. A cost of 0 changes nothing and returns the balance with due refills and expired reserves counted.
 *  7. Counted periods only move forward; an earlier period refills nothing. Balances stop at 2^53 − 1. A spend or
 *     draw whose period belongs to another calendar than the balance changes nothing and is `stale`. At most 9,600
 *     hourly, 400 daily, 60 weekly or 24 monthly boundaries are refilled at once.
 *  8. The next find sees a change: at once in this process; in others after their next `pollChanges`, and no later than
 *     the bound that the store states.
 *  9. A read that began before a change never restores the old record (for caching decorators).
 * 10. Changing a returned object does not change the store.
 * 11. After `close()` every call fails with STORE_CLOSED; a second `close()` does nothing.
 * 12. Two new stores share nothing, and differ in {@link Store.readSecret}.
 * 13. `write` is all or nothing; unless it returns `written`, nothing was changed. Of the rows that cannot be written,
 *     the first in the list decides the outcome, and of one row the version before the name before the balance.
 *     `conflict`: the row has another version than was read, or is gone, or its balance has counted refills beyond
 *     `credits.refillsCounted`. `taken`: the row is new and its id exists, or another row has its name or a digest. Of
 *     writes of one version that are in flight at once, one is written. Of a write that was made with `credits`, the
 *     outcome is the balances that it left, read in the same step.
 * 14. Draws never hand out more than the balance. An expired reserve returns to the balance before the next spend or
 *     draw, and before credits are added or deducted (`CreditChange`). Setting a balance voids older leases. A lease
 *     counts what it spent once, however often it is reported; ending a lease twice, or one that is unknown, changes
 *     nothing. Power `leases`; reserves: power `reserves`.
 * 15. All subscribers are notified, once it is durable and reads see it, of every change that a find could see, and of
 *     every change of an identity, a role or a permission, because imports cache their names. A change of a row that
 *     keys refer to is notified by table and id, by the digest of each key that it reaches, or as `all`. That a new key
 *     was created need not be notified to other processes: a cached miss is used for `missTtl` at most, 1 s by default.
 *     A spend, and a write that is refused, notify nobody.
 * 16. Lists are ordered by id, start after `after`, contain at most `limit` rows, and omit deleted keys, APIs
 *     and root keys. The order is that of code units or of code points, never that of a language: `Z` before `a`.
 * 17. Names of one workspace are unknown in another.
 * 18. Deleted keys, and keys of deleted APIs, are not found. `insertKeys` into an API that is deleted by then, by
 *     whatever process, fails with NOT_FOUND.
 * 19. A root key's digest is unique in the store and found whatever the workspace; a change of a root key is
 *     reported as its digest, or as `all`.
 * 20. `findKeys`, `readMany` and `readBalances` return one result per argument, in order, each as if it was read alone:
 *     `undefined` where there is none, the same twice for an argument that repeats. keystile passes at most
 *     1,000 arguments.
 * 21. `powers` never changes. A method of a power that the store lacks fails with STORE_POWER_MISSING, and changes
 *     nothing.
 * 22. Keys with one `accountId` share one balance, which lives as long as one of them. A key with an `accountId` is
 *     written while the key that it was `rerolledFrom` is there.
 * 23. `spendOnce` records a spend in the transaction that makes it, and only if it is made. While the record lasts,
 *     another `spendOnce` under its `id` takes nothing: with the same `body` it is `repeated`, with another `mismatch`.
 *     A record of a workspace that has `maxPerWorkspace` is refused as `full`, and nothing is taken. Where the store
 *     has `maxRecords`, so is one of a workspace that has an equal share of them: `maxRecords` divided by the
 *     workspaces with records, this one included. One below its share, or without any, always has another. None is
 *     removed before it expires, and expired ones do not count. Calls in flight at once may pass a bound by one for
 *     each other workspace. A `write` with `once` is recorded likewise, in the step that makes it and only if it is
 *     made: under a record that lasts it changes nothing and is `repeated` or a `mismatch`, and without space for
 *     another, where nothing else refuses it, `full`. Power `idempotency`.
 * 24. `recordUses` sets `lastUsedAt` of keys and changes nothing else: no version, and no subscriber is notified. The
 *     latest time stays, ids that do not exist are ignored, and `write` and `insertKeys` ignore `lastUsedAt`. keystile
 *     passes at most 1,000 uses. Power `usage`.
 * 25. A store with the power `audit` keeps the entries that `write` and `insertKeys` are given, in the step that makes
 *     the change, and only if it is made: of `insertKeys` with the number of keys that were inserted as `count`, and
 *     none if that is 0. Of a `write` with `credits` it keeps the first entry with what it returns of the first of
 *     these balances, as `credits`. Beyond a bound it may drop the oldest entries of workspaces that have more than an
 *     equal share of it. Each has a number, higher than those before it, and `readAudit` finds them from the highest
 *     on.
 * 26. An identity may have an account, which ends with it. A key draws on the identity's account if that has credits,
 *     and the key has no `creditsFrom`. Without a balance of its own, its record then has the `hasCredits`, the
 *     `refill` and the `generation` of the identity, and the identity's account as `account.ref`; with one, `wallets`:
 *     its own and then the identity's. All that clauses 5 to 7, 13, 14 and 23 say of a balance holds of the identity's.
 *     Removing an identity that has credits is a `conflict` while an enabled key draws on it, unless the key or its API
 *     is deleted.
 * 27. A reservation is a spend that is decided later: `reserveCredits` takes its cost as a spend does, and
 *     `settleCredits` keeps a part of it as spent and returns the rest, once. One that was not settled returns as the
 *     reserve of a lease does: it is `expired` from `until` on, and `voided` once the balance is set. How it ended is
 *     known until an hour after `until`; of one whose account is gone it is not. An account has at most 1,000 that are
 *     open; another is refused as `full`, and one under the id of an open one as `open`. The `KeyRef` of the account is
 *     the same in every process. Power `reservations`.
 * 28. `countOutcomes` adds a flush to the counts of each level that the store keeps, all or nothing, once: a flush is
 *     `counted` if its `seq` follows the last one of its source, or is 1 of a new one; one that was counted before is
 *     `repeated`, and any other a `gap`, and both change nothing. Beside the counts of a subject it keeps those of
 *     all keys of its API, and of each account that is named the totals of the day, as they are then, with those of
 *     the account of the identity of its keys, and of the grants of both that are open, or have ended and had no totals
 *     or a balance in the last ones, or have got back since what was forfeited in them. Once something was counted,
 *     `write` keeps the totals of the accounts of the keys, identities and grants that it changes, with the same
 *     others, as they were before and as they are after it: so those of an owner end where the key moves, or is
 *     deleted, and those of the next one begin there. An account is of the identity that it belongs to, or of the
 *     newest of its keys that is not deleted; that of a grant is of the owner of the account beside which it is. It is
 *     a cap while that key and its identity have credits, and the key no `creditsFrom`; without a balance of the key's
 *     own it stays what it was, since what its leases spent before is told later. Totals are of the day on which they
 *     are kept, also if later ones were kept before, and those of a grant of the day of its expiry at the latest: after
 *     that day what is left has expired in them. Counts and totals stay when their key is
 *     removed. `pruneOutcomes` removes at most `most` counts of periods before `before`, and what nothing names any
 *     more: sets of tags and subjects without counts, but for subjects whose account has totals, and the totals of an
 *     account that is nobody's. A workspace has at most `maxTagSets` sets of tags at once, however many others have,
 *     beside `[]` and `["(other)"]`; calls with further ones are counted as `["(other)"]`, and the result names their
 *     cells. Power `analytics`.
 * 29. `searchKeys` looks at the next `among` keys of these APIs in the order asked for, without those that are
 *     deleted, or at those that are deleted alone: `newest` is by id downwards, `expires` by that and then by id,
 *     without those that never expire; `any` is the order in which it finds keys with few credits, or used lately, at
 *     the least cost: there `among` may count balances or uses in place of keys, of other workspaces too, `looked` is
 *     the keys that are returned alone, and a key may come twice. It leaves out none that `mayMatch`, and may return
 *     others. `countKeys` counts each of the next `among` keys of an API once, and may need further slices for those
 *     of identities that have expired. `findKeyIds` finds the keys for which `insertKeys` would refuse one with this
 *     digest or hash, those that are deleted or of a deleted API among them; keystile passes at most 10,000. Power
 *     `search`.
 * 30. `changeAlerts` raises an alert of a subject unless one is raised, or one ended at `from` or later, and ends the
 *     one that was raised before `from`; it is raised, or has ended, as of `until`. All or nothing; of calls in flight
 *     at once, one raises it, and one ends it. It returns of each whether it changed anything. What was raised is due
 *     at once, whether or not it ends. `takeAlerts` returns those that are due, the longest due first, each to one of
 *     the calls in flight, and makes them due again at `until`: what a process took that vanished is not lost.
 *     `settleAlert` says what became of one, which is one more try; unless it was delivered, nothing is changed if it
 *     was taken since, which its `due` tells. Power `alerts`.
 * 31. `spendWallets` takes its cost from each of several wallets, all or nothing, in one atomic, durable step: of each
 *     from its accounts in the order given, as much as there is of one before the next. Of each account that it takes
 *     credits from, clauses 5 to 7, 14, 23 and 27 hold as of one balance. The others stay as they are, but for those at
 *     their `expires` or past it: nothing is taken from them, and what is left there has expired then. A wallet has
 *     what its accounts have together, at most 2^53 − 1, and the result has the least of what the wallets have, and
 *     says which has it; one with an unlimited account is unlimited, and nothing is taken from it. A cost of 0 also
 *     tells the `balances` of the accounts. The result is `stale` if an account is not there, or has another calendar
 *     than its period. A reservation has a part in each account that it took from, all under its id. `settleWallets`
 *     settles the parts in one step: it keeps `spent` of each wallet, from the parts in the order given, and the rest
 *     returns to the accounts that it came from. Parts that have ended by then are passed over, and the outcome says
 *     what each wallet `kept` if that is less; if all have, it is how the first of them ended. keystile passes at most
 *     two wallets of at most 17 accounts, and no account twice. Power `wallets`.
 * 32. A grant has an account, which ends with its row. All that clauses 5 to 7, 13, 14, 23, 27 and 31 say of a balance
 *     holds of it; read at its `expires` or later, what is left has expired. A key that draws on an owner with
 *     `hasGrants` (the identity, or the keys of an account) has `wallets` in its record, if any grant of that owner has
 *     no `endedAt`: that owner's has the main account and these. `findWallet` finds that of an identity, the main
 *     account first, also where that is all that there is. keystile writes a grant together with its owner, of which
 *     clause 15 notifies, and removes the grants of an owner with it. Power `wallets`.
 * 33. At each boundary of a balance with a `rollover` what is above it expires, before the refill is added: after k
 *     boundaries at once `min(remaining + (k − 1) × amount, rollover) + amount` is left. What a lease or a reservation
 *     took before a boundary and returns after it stays as far as the rollover had space for it at the boundary, and
 *     has expired otherwise; after a second boundary that was counted by itself all of it has. A draw under a lease
 *     from before such a boundary draws nothing and is `ended`. Power `rollover`.
 * 34. `countOutcomes` keeps the last 10 of the `refusals` that cells have of each key of a workspace, by time, in the
 *     step that counts them and only if it does: an id may be used again in another workspace, which never reads those
 *     of the first. Beyond a number of keys it forgets those of the keys whose last refusal is the oldest, of the
 *     workspaces that have most of them. `pruneOutcomes` removes with the hours each refusal that is older. They are
 *     removed with the row of their key, and those of calls that are counted later stay that long. Power `refusals`.
 */
import type { AuditEntry, AuditQuery, AuditSlice } from "./audit.js";
import type { AlertChange, AlertQuery, AlertRow, AlertSettlement, AlertTake } from "./alerts.js";
import type {
  CreditDay,
  CreditDaysQuery,
  FlushResult,
  OutcomeFlush,
  OutcomeLevel,
  OutcomeQuery,
  OutcomeRow,
  Refusal,
  RefusalsQuery,
} from "./outcomes.js";
import type { Identity, JsonObject, MaybePromise, RatelimitResponse, Refill } from "./types.js";

/** The store's short handle of a key: opaque to keystile, never reused for another key. */
export type KeyRef = string | number;
/** What a verification needs of a key: roles resolved to permissions, limits as configured, no counters. Immutable. */
export interface KeyRecord {
  readonly ref: KeyRef;
  readonly keyId: string;
  readonly workspaceId: string;
  readonly apiId: string;
  readonly name?: string;
  readonly meta?: JsonObject;
  /** Last instant at which the key is valid, Unix time in milliseconds; absent: never expires. */
  readonly expires?: number;
  readonly enabled: boolean;
  /** Direct ones and those of its roles; sorted, without duplicates. */
  readonly permissions: readonly string[];
  /** Sorted, without duplicates. */
  readonly roles: readonly string[];
  /**
   * Ids of the roles and permissions that the two lists above come from, those included that are gone by now: a
   * {@link RowChange} of one of them drops the record from caches. Absent: unknown, so that one of any role or
   * permission does. Keys with the same ids share them in memory.
   */
  readonly grantIds?: readonly string[];
  readonly identity?: Identity;
  /** Whether its identity is disabled: it is FORBIDDEN. Absent: it is not. */
  readonly ownerDisabled?: true;
  /** {@link IdentityRow.expires} of its identity. Absent: never, or it has none. */
  readonly ownerExpires?: number;
  readonly ratelimits: readonly RatelimitResponse[];
  /**
   * Whether it draws on a balance: its own, its identity's, or both (clause 26). False: its credits are unlimited and
   * `spendCredits` need not be called.
   */
  readonly hasCredits: boolean;
  /** Whose the balance is that it draws on. Absent: its own, if it has one, and with `wallets` the first is. */
  readonly creditsFrom?: "identity";
  /** Of the balance that it draws on. */
  readonly refill?: NumberedRefill;
  /** Increases whenever an administrator sets the balance: leases of an older generation are void. */
  readonly generation: number;
  /** Whether its API or workspace is disabled. */
  readonly parentDisabled: boolean;
  /** A migrated key that has no native digest yet. */
  readonly unadopted: boolean;
  /** An imported key whose first characters are not known: {@link KeyRow.start} ends with `...`. Absent: they are. */
  readonly startUnknown?: true;
  /** The non-empty allow-lists of the key and its API; an address must be in each. */
  readonly ipAllowlists: readonly (readonly string[])[];
  /**
   * Whose credits and rate limits it uses: those of the first of the keys that replaced each other, or the credits of
   * its identity. Absent: its own.
   */
  readonly account?: SharedAccount;
  /**
   * The wallets that cover a call, where there are several accounts: `hasCredits` is true, and `spendWallets` takes the
   * credits (clause 31). `refill`, `generation` and `account` are then of the main account of the first. Absent: one
   * account.
   */
  readonly wallets?: readonly OwnedWallet[];
}
/** The accounts that one owner has. */
export interface OwnedWallet {
  readonly owner: "key" | "identity";
  /** In any order. */
  readonly accounts: readonly DrawnAccount[];
}
/** An account of a wallet, with what its place in the draw-down order depends on. */
export interface DrawnAccount {
  readonly ref: KeyRef;
  /** As in {@link KeyRecord.generation}, of this account. */
  readonly generation: number;
  /** Absent: the main account. */
  readonly grantId?: string;
  /** 0…255, the lowest first. */
  readonly priority: number;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
  /** Unix time, milliseconds, from which on nothing can be taken from it. Absent: never. */
  readonly expires?: number;
  readonly refill?: NumberedRefill;
}
/** A refill as `periodOf` needs it. */
export type NumberedRefill = Refill & {
  /** {@link CreditRow.refillCalendar}. */
  readonly calendar?: number;
};
/** Where the credits of a key are that shares them with others. */
export interface SharedAccount {
  /** For `spendCredits`, `drawCredits` and `returnCredits`. */
  readonly ref: KeyRef;
  /** The owner of the buckets of the key's limits: {@link KeyRow.accountId}, or the key itself. */
  readonly id: string;
}
/** Common to all rows. */
export interface Versioned {
  /** Unique in its table across workspaces; at most 255 code points, compared exactly. */
  readonly id: string;
  /**
   * Number of changes: 0 in a row that is not stored yet, otherwise as read. `write` compares it and stores the next
   * (clause 13).
   */
  readonly version: number;
}
/** A workspace, which owns all other rows. Without a row it counts as enabled; keys of a disabled one are FORBIDDEN. */
export interface WorkspaceRow extends Versioned {
  readonly enabled: boolean;
}
/** Every other row belongs to one workspace. */
export interface OwnedRow extends Versioned {
  readonly workspaceId: string;
}
/** An API, to which keys belong; those of a disabled one are FORBIDDEN. Several may have the same `name`. */
export interface ApiRow extends OwnedRow {
  readonly name: string;
  readonly enabled: boolean;
  /** Empty: any address is allowed. */
  readonly ipAllowlist: readonly string[];
  /** Whether it is deleted: it is not listed, and its keys are not found (clauses 16, 18). */
  readonly deleted: boolean;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
}
/** What a row says of its balance, which is separate ({@link CountedBalance}). */
export interface CreditRow {
  /** Whether it has a balance of credits. */
  readonly hasCredits: boolean;
  readonly refill?: Refill;
  /**
   * Unix time in milliseconds: boundaries up to it are already refilled and are not counted again under any calendar.
   * Absent: `createdAt`, or of an identity none.
   */
  readonly refillCursor?: number;
  /**
   * How many calendars it has had before this one since it first had one that is hourly, weekly or of a time zone: part
   * of each of its periods, so that those of two calendars are never compared. Absent: none.
   */
  readonly refillCalendar?: number;
  /** As in {@link KeyRecord.generation}. */
  readonly generation: number;
}
/**
 * An identity: the entity that keys belong to, with limits and credits that they share. Its name within the workspace
 * is `externalId`. Without `hasCredits` it has no credits, and never had any without `generation`.
 */
export interface IdentityRow extends OwnedRow, Partial<CreditRow> {
  readonly externalId: string;
  /** Whether there may be grants of it that are open (clause 32). Absent: there are none. */
  readonly hasGrants?: true;
  readonly meta?: JsonObject;
  /** False: its keys are FORBIDDEN. Absent: it is enabled. */
  readonly enabled?: boolean;
  /** Last instant at which its keys are valid, Unix time in milliseconds; absent: never expires. */
  readonly expires?: number;
  readonly ratelimits: readonly RatelimitResponse[];
}
/**
 * A grant: credits of a key or an identity beside those of its main account, in an account of their own that ends with
 * the row (clause 32). Its name within the workspace is the id of its owner, a space and `grantId`.
 */
export interface GrantRow extends OwnedRow, CreditRow {
  /** Whose it is. Absent: a key's. */
  readonly identityId?: string;
  /** Of a key: {@link KeyRow.accountId}, or its own id. Absent: an identity's. */
  readonly accountId?: string;
  /** Chosen by the caller, or else the id: at most 255 code points. */
  readonly grantId: string;
  /** Credits that were granted. */
  readonly amount: number;
  /** Its place in the draw-down order, 0…255, the lowest first. */
  readonly priority: number;
  /** Unix time, milliseconds: from then on nothing can be taken from it, and what is left expires. Absent: never. */
  readonly expires?: number;
  /** For people, 1–255 code points. */
  readonly reason?: string;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
  /** When it was ended, Unix time in milliseconds: no key draws on it any more. Absent: it is open. */
  readonly endedAt?: number;
}
/** A role. Its name within the workspace is `name`; `description` is for people. */
export interface RoleRow extends OwnedRow {
  readonly name: string;
  readonly description?: string;
  /** Ids of permissions; ignore ids that no longer exist. */
  readonly permissions: readonly string[];
}
/**
 * A permission. Its name within the workspace is `slug`: the text that queries and grants compare. `name` and
 * `description` are for people.
 */
export interface PermissionRow extends OwnedRow {
  readonly name: string;
  readonly slug: string;
  readonly description?: string;
}
/** A migration: `algorithm` is how the imported keys were hashed. Its name within the workspace is its id. */
export interface MigrationRow extends OwnedRow {
  readonly algorithm: string;
}
/**
 * A root key: authenticates a caller. Its name within the workspace is `digest`, which is also unique in the store.
 * Contract 5.
 */
export interface RootKeyRow extends OwnedRow {
  /** Native digest: SHA-256 of the whole key, standard base64. */
  readonly digest: string;
  /** First characters of the root key, for people; never enough to guess the rest. */
  readonly start: string;
  readonly name?: string;
  /** Grants in either form of contract 5.4. */
  readonly permissions: readonly string[];
  /** Last instant at which it authenticates, Unix time in milliseconds; absent: never expires. */
  readonly expires?: number;
  readonly enabled: boolean;
  /**
   * It was deleted and is not listed (clause 16), though found by its digest: no verification lets its text in, even
   * where the digest was imported as a key's. Such a row is not enabled and has neither permissions nor a name.
   */
  readonly deleted?: true;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
}
/** A namespace of standalone rate limits. Its name within the workspace is `name`. */
export interface NamespaceRow extends OwnedRow {
  readonly name: string;
  /** Its overrides whose identifier holds `*`, written in one step with them; at most 100. Absent: none. */
  readonly wildcards?: readonly WildcardRef[];
  /** Unix time, milliseconds. */
  readonly createdAt: number;
}
/** An override whose identifier holds `*`. */
export interface WildcardRef {
  /** Of the override. */
  readonly id: string;
  readonly identifier: string;
}
/**
 * An override: another limit for one identifier of a namespace. Its name within the workspace is `namespaceId`, a space
 * and `identifier`.
 */
export interface OverrideRow extends OwnedRow {
  readonly namespaceId: string;
  readonly identifier: string;
  /** Tokens per window, ≥ 0. */
  readonly limit: number;
  /** Window, milliseconds, ≥ 1_000. */
  readonly duration: number;
}
/**
 * A key as administration reads and writes it; its balance is separate ({@link CountedBalance}). An `identityId` that
 * no longer exists counts as absent.
 */
export interface KeyRow extends OwnedRow, CreditRow {
  readonly apiId: string;
  /**
   * Native digest: SHA-256 of the whole key, standard base64. Absent on a migrated key until it is first verified,
   * unless the imported hash is this digest. Unique in the store.
   */
  readonly digest?: string;
  /** Migrated keys only. */
  readonly migrationId?: string;
  /** The imported hash as given. */
  readonly hash?: string;
  /** The imported hash in canonical form, used for look-ups. Unique in the store. */
  readonly foreignDigest?: string;
  /**
   * First characters of the key, for people; never enough to guess it. Of an imported one `...`, after its prefix if
   * that is known, until a verification has shown its text.
   */
  readonly start: string;
  /** For people, 1–255 code points. */
  readonly name?: string;
  /** As given: at most 64 KB, 32 levels and 100 properties, as {@link JsonObject} says; verifications return it. */
  readonly meta?: JsonObject;
  /**
   * Unix time, milliseconds, the last at which it is valid; absent: never. At most 4_102_444_800_000 in requests,
   * 8_640_000_000_000_000 in imports. `createKey` refuses a time that is past, as one in seconds is; `updateKey`,
   * imports and HTTP take it, and the key is EXPIRED at once.
   */
  readonly expires?: number;
  /** False: every verification is DISABLED. A new key is enabled unless the request says otherwise. */
  readonly enabled: boolean;
  readonly identityId?: string;
  /** Ids of permissions granted directly; ignore ids that no longer exist. */
  readonly permissions: readonly string[];
  /** Ids of roles; ignore ids that no longer exist. */
  readonly roles: readonly string[];
  readonly ratelimits: readonly RatelimitResponse[];
  /** Addresses and CIDR ranges that it may be used from, at most 1,000; empty: any. */
  readonly ipAllowlist: readonly string[];
  /**
   * `none`: its credits are unlimited, whatever its identity has; `key`: it draws on its own alone. Absent: it draws on
   * those of its identity too.
   */
  readonly creditsFrom?: "none" | "key";
  /** As of an identity; of all keys that share its account. */
  readonly hasGrants?: true;
  /** Whether it is deleted: neither found nor listed, though its digests stay taken (clauses 16, 18). */
  readonly deleted: boolean;
  /** When it was deleted, Unix time in milliseconds. Absent: it is not, or was before this was recorded. */
  readonly deletedAt?: number;
  /** Who deleted it: {@link AuditEntry.actor}, or where that is not known {@link AuditEntry.actorKind}. */
  readonly deletedBy?: string;
  /**
   * Id of the key whose credits it shares, and after which the buckets of its limits are named: the first of the keys
   * that replaced each other, which may be gone. Never changes. Absent: its own.
   */
  readonly accountId?: string;
  /** Id of the key before it in its account: the one that it replaced, or if that is gone, the one before. */
  readonly rerolledFrom?: string;
  /** Id of the key after it in its account, which may be gone; absent: it was never replaced. */
  readonly rerolledTo?: string;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
  /** Unix time, milliseconds, of the last change by administration; absent: none since it was made. */
  readonly updatedAt?: number;
  /**
   * Unix time in milliseconds, to the minute: when a verification last found it, whatever the outcome. Set by
   * `recordUses` alone (clause 24), up to a few seconds later. Absent: never, or not recorded.
   */
  readonly lastUsedAt?: number;
}
/** The row type of each table. */
export interface Rows {
  workspaces: WorkspaceRow;
  apis: ApiRow;
  identities: IdentityRow;
  roles: RoleRow;
  permissions: PermissionRow;
  migrations: MigrationRow;
  rootKeys: RootKeyRow;
  namespaces: NamespaceRow;
  overrides: OverrideRow;
  grants: GrantRow;
  keys: KeyRow;
}
/** The tables, by name. */
export type Table = keyof Rows;
/** Tables whose rows may have an account. */
export type AccountTable = "keys" | "identities" | "grants";
/** Tables whose rows have a name that is unique in their workspace. */
export type NamedTable = Exclude<Table, "workspaces" | "apis" | "keys">;
/** A new key, with `version` 0, and its initial balance. */
export interface NewKey {
  readonly row: KeyRow;
  /** Absent: unlimited. */
  readonly balance?: NewBalance;
}
/** The initial balance of an account. */
export interface NewBalance {
  /** 0…2^53 − 1. */
  readonly remaining: number;
  /** Credits added per period; 0 without refill. */
  readonly amount: number;
  /** The calendar, and the periods counted so far (`periodOf`). */
  readonly period: number;
  /** How much of it stays at each boundary, 0…2^53 − 1. Absent: all of it. */
  readonly rollover?: number;
}
/**
 * A change of a balance, applied in this order: unless `remaining` is given, take back the reserves that have expired
 * at `now`; then count the refills due at `period`; then replace the balance with `remaining`, if it is given; then add
 * `add` (bounded to 0…2^53 − 1); then replace the calendar with `refill`.
 */
export interface CreditChange {
  /**
   * `periodOf` the refill before the change, at the time of the change. If the balance has another calendar, only
   * `remaining` may be set.
   */
  readonly period: number;
  /** Refuse the write if more periods than these have been counted by then (clause 13). */
  readonly refillsCounted?: number;
  /**
   * Unix time, milliseconds: `add` changes a balance that has the reserves expired by then (clause 14). Absent: none is
   * taken back.
   */
  readonly now?: number;
  /** null: unlimited. */
  readonly remaining?: number | null;
  /** May be negative; no effect on unlimited credits. */
  readonly add?: number;
  /**
   * `amount`: credits added per period, 0 without refill. Without `period`, the periods counted so far stay. Without
   * `rollover`, all of the balance stays at each boundary.
   */
  readonly refill?: { readonly amount: number; readonly period?: number; readonly rollover?: number };
}
/**
 * One row to store (`version` 0: it must be new; `credits` for keys, identities and grants only), or to remove (it must
 * be unchanged since it was read).
 */
export type Write = {
  [T in Table]:
    | {
        readonly table: T;
        readonly row: Rows[T];
        readonly credits?: T extends AccountTable ? CreditChange : never;
      }
    | { readonly table: T; readonly remove: string; readonly version: number };
}[Table];
/** Selects rows of a table, ordered by id (clause 16). */
export interface ListQuery {
  readonly workspaceId: string;
  /** Keys only. */
  readonly apiId?: string;
  /** Keys only. */
  readonly identityId?: string;
  /** Overrides only. */
  readonly namespaceId?: string;
  /** Grants only: the id of the identity, or of the key's account, whose they are. */
  readonly ownerId?: string;
  /** Only rows with a greater id. */
  readonly after?: string;
  /**
   * A search, which keystile does itself: of the next `among` rows the store may leave out those that cannot hold
   * `text` in any field, ignoring case, but not the last of them. A store may ignore it.
   */
  readonly mayHold?: { readonly text: string; readonly among: number };
  /** At most this many rows, ≥ 1. */
  readonly limit: number;
}
/** Which balance to read: a key's own, an identity's, or a grant's. */
export type BalanceQuery = (
  | { readonly keyId: string; readonly identityId?: never; readonly grantId?: never }
  | { readonly identityId: string; readonly keyId?: never; readonly grantId?: never }
  | {
      /** The id of its row. */
      readonly grantId: string;
      /** When it expires, as its row says. */
      readonly expires?: number;
      readonly keyId?: never;
      readonly identityId?: never;
    }
) & {
  /** `periodOf` the refill of the row at `now`; 0 without refill. */
  readonly period: number;
};
/** A balance with its due refills counted but not stored. */
export interface CountedBalance {
  /** Includes expired reserves. null: unlimited. */
  readonly remaining: number | null;
  /**
   * Periods counted: as requested, or more if more were counted already. If the balance has another calendar, its own,
   * with nothing counted.
   */
  readonly period: number;
  /** Credits that are leased, in the store or in a node's memory, and not reported as spent. Not in `remaining`. */
  readonly reserved: number;
  /** Where the credits came from and went (`src/credits/account.ts`). Absent: the store keeps no totals. */
  readonly totals?: CreditTotals;
}
/**
 * Totals of a balance, each an integer of at most 2^53 − 1:
 * `credited + refilled + adjusted = spent + remaining + reserved + forfeited + expired`.
 */
export interface CreditTotals {
  /** The first balance. */
  readonly credited: number;
  /** What refills added, as far as it fitted below 2^53 − 1. */
  readonly refilled: number;
  /** The signed sum of an administrator's changes. */
  readonly adjusted: number;
  /** What verifications took. What a lease has spent counts once its node has reported it. */
  readonly spent: number;
  /** What was lost with nodes that vanished, or was leased from a balance that was set meanwhile. */
  readonly forfeited: number;
  /** What a rollover did not let stay. Absent: none. */
  readonly expired?: number;
}
/** A use of a key, for `recordUses`. */
export interface KeyUse {
  readonly keyId: string;
  /** Unix time, milliseconds. */
  readonly usedAt: number;
}
/** Outcome of a spend. */
export interface Spend {
  /** False: the balance is below the cost and nothing was taken. */
  readonly ok: boolean;
  /** The balance after the spend; unchanged when refused; null: unlimited. */
  readonly remaining: number | null;
  /** Of two wallets the place of that which has the least, so that `remaining` is of it. Absent: there is one. */
  readonly least?: number;
  /** Boundaries that were not refilled, because too many were due at once (clause 7). Absent: none. */
  readonly forfeited?: number;
  /**
   * The balance has another calendar than the period: nothing was taken, `ok` is false and `remaining` is meaningless.
   * Find the key again and retry with its current calendar (clause 7). Absent: the calendars match.
   */
  readonly stale?: true;
  /**
   * Of a reservation that was refused although the balance covers it: the account has as many as it may, or one under
   * this id (clause 27).
   */
  readonly refused?: "full" | "open";
  /**
   * Of a read of wallets, a cost of 0 without `once`: what can be taken of each account, of each wallet in the order
   * given; null: unlimited. Absent: it is no such read, or stale.
   */
  readonly balances?: readonly (readonly (number | null)[])[];
}
/** What `spendOnce` records of a call with an idempotency key: digests alone, keyed with a secret of the store. */
export interface OnceRecord {
  /** Whose share of the records it counts for. */
  readonly workspaceId: string;
  /** Digest of workspace, caller and idempotency key: 22 characters of base64url. */
  readonly id: string;
  /** Digest of the request body, likewise. */
  readonly body: string;
  /** When the record expires, Unix time in milliseconds: from then on it counts as absent. */
  readonly until: number;
  /** Reserves the credits instead of spending them (clause 27). */
  readonly reservation?: ReservationRequest;
}
/** What `write` records of a change that was made under an idempotency key (clause 23). */
export interface WriteOnce {
  readonly record: Omit<OnceRecord, "reservation">;
  readonly bounds: OnceBounds;
  /** Unix time, milliseconds: records that have expired by then count as absent. */
  readonly now: number;
}
/** Why a write under an idempotency key changed nothing (clause 23). */
export type OnceRefusal = "repeated" | "mismatch" | "full";
/** How many records a store may have. */
export interface OnceBounds {
  /** Of all workspaces, ≥ 1; from there on only those below an equal share of them have more. */
  readonly maxRecords: number;
  /** Of one workspace, 1…maxRecords. */
  readonly maxPerWorkspace: number;
}
/** Outcome of `spendOnce` (clause 23). */
export interface OnceSpend {
  /** `done`: as `spendCredits`, and recorded if it was made. Otherwise nothing was taken. */
  readonly outcome: "done" | "repeated" | "mismatch" | "full";
  /**
   * With `done` the outcome of the spend, with `repeated` that of a cost of 0. Absent: no such key, or it never had a
   * balance; then nothing was recorded.
   */
  readonly spend?: Spend;
}
/** An account that a call may take credits from (clause 31). */
export interface WalletAccount {
  readonly ref: KeyRef;
  /** `periodOf` its refill at the time of the call; 0 without refill. */
  readonly period: number;
  /** Unix time, milliseconds: from then on nothing can be taken from it. Absent: it never expires. */
  readonly expires?: number;
}
/** The accounts of one owner, in the order in which credits are taken from them. */
export type Wallet = readonly WalletAccount[];
/** What is to be taken from each of several wallets (clause 31). */
export interface WalletSpend {
  /** ≥ 0. */
  readonly cost: number;
  /** Unix time, milliseconds. */
  readonly now: number;
  /** Reserves the credits instead of spending them. With `once` its record says so. */
  readonly reservation?: ReservationRequest;
  /** Of a call with an idempotency key: as for `spendOnce`. */
  readonly once?: { readonly record: OnceRecord; readonly bounds: OnceBounds };
}
/** A spend of a call with an idempotency key. */
export type SpendOnce = WalletSpend & Required<Pick<WalletSpend, "once">>;
/** A spend that is a reservation. */
export type Reserve = WalletSpend & Required<Pick<WalletSpend, "reservation">>;
/** Names of a store's secrets. */
export type SecretName = "idempotency";
/** A node's request for credits to spend from its own memory. */
export interface DrawRequest {
  /** Random id of the lease, which belongs to one account and one node. */
  readonly holder: string;
  /** Credits spent from this lease since it began. */
  readonly spent: number;
  /** Draw at least this much, or nothing. */
  readonly cost: number;
  /** Draw at most this, or `cost` if that is more. A crash loses what is left of it. */
  readonly step: number;
  /** Most credits drawn and reserved together. The reserve of a crashed node returns to the balance once it expires. */
  readonly size: number;
  /** `periodOf` the key's refill at `now`; 0 without refill. */
  readonly period: number;
  /** Unix time, milliseconds: reserves of other holders that have expired by then return to the balance. */
  readonly now: number;
  /** When the reserve expires, Unix time in milliseconds. */
  readonly until: number;
}
/** The end of a lease. */
export interface LeaseReturn {
  /** Id of the lease, which never draws again. */
  readonly holder: string;
  /** Credits spent from it since it began: all others that it drew come back. */
  readonly spent: number;
}
/** Outcome of a draw. */
export interface Draw {
  /** 0: the balance was not enough, or the lease is void. */
  readonly drawn: number;
  /** Generation of the balance now. That of the lease is older: the lease is void, so end it and draw under another. */
  readonly generation: number;
  /** What the store still has for this holder after the draw, its reserve included; null: unlimited. */
  readonly remaining: number | null;
  /** As in {@link Spend.forfeited}. */
  readonly forfeited?: number;
  /** As in {@link Spend.stale}: nothing was drawn. */
  readonly stale?: true;
  /**
   * Credits of this lease may have expired since they were drawn: nothing was drawn, so end it and draw under another.
   */
  readonly ended?: true;
}
/** What a reservation is to be (clause 27). */
export interface ReservationRequest {
  /** Begins with `res_`; at most 64 characters of `[a-zA-Z0-9_-]`. Chosen at random, or from an idempotency key. */
  readonly id: string;
  /** When it returns to the balance unless it was settled, Unix time in milliseconds. */
  readonly until: number;
}
/** How a reservation is to be settled. */
export interface SettleRequest {
  /** {@link ReservationRequest.id}. */
  readonly id: string;
  /** Credits to keep as spent; all others return. */
  readonly spent: number;
  /** Unix time, milliseconds. */
  readonly now: number;
}
/**
 * Outcome of `settleCredits`: unless it is settled, nothing was changed but that reservations which have expired by
 * then returned. The reason is how it ended before, or `exceeds`: `spent` is more than it has, and it stays open.
 */
export type Settlement =
  | {
      readonly settled: true;
      /** Of `settleWallets`: what each wallet kept, where one kept less than `spent`. Absent: each kept `spent`. */
      readonly kept?: readonly number[];
    }
  | { readonly settled: false; readonly reason: "settled" | "expired" | "voided" | "unknown" | "exceeds" };
/** Where a search of keys stands: at this key. */
export interface KeyPosition {
  /** Id of the key; in the order `any` what the store likes. */
  readonly id: string;
  /** In the order `expires`: that of the key. */
  readonly expires?: number;
}
/** What a key that is searched for has, all of it. A store may leave out keys that lack some, or return them. */
export interface KeyHints {
  /** Somewhere in its id, its `start`, its name or the `externalId` of its identity, ignoring case. */
  readonly text?: string;
  readonly enabled?: boolean;
  /** It expires before this, or its identity does. */
  readonly expiresBefore?: number;
  /** Expires at this or later, or never. */
  readonly expiresFrom?: number;
  /** Was last used at this or later. */
  readonly usedFrom?: number;
  /** Draws on a balance below this, whoever owns it. Balances as stored will do: refills only add to them. */
  readonly creditsBelow?: number;
  /** Has a greater id than this, if it was last used at `usedFrom`, or all that it has is one below `creditsBelow`. */
  readonly idAbove?: string;
}
/** A slice of a search of keys (clause 29). */
export interface KeySearch {
  readonly workspaceId: string;
  /** Of APIs of this workspace, 1 to 1,000. */
  readonly apiIds: readonly string[];
  /** Only keys of this identity. */
  readonly identityId?: string;
  /**
   * With `deleted` always `newest`, and so with `identityId`, or `expires`. `any` is asked for with `creditsBelow` or
   * `usedFrom`.
   */
  readonly order: "newest" | "expires" | "any";
  /** Look at deleted keys, and at no others. Absent: at those that are not deleted. */
  readonly deleted?: true;
  /** Begin after this; absent: with the first. */
  readonly after?: KeyPosition;
  /** Look at no more keys than this, ≥ 1; fewer will do, but one at least. */
  readonly among: number;
  /** Return at most this many, ≥ 1: what is returned last is then what is looked at last. */
  readonly limit: number;
  readonly mayMatch: KeyHints;
}
/** Keys that may match, in order. */
export interface KeySlice {
  readonly keys: readonly KeyRow[];
  /** How many keys of these APIs were looked at; in the order `any` those that are returned. */
  readonly looked: number;
  /** The last of those; absent: there are no more after them. */
  readonly last?: KeyPosition;
}
/** What a key is looked for by, in any workspace: it has this digest, or this hash in canonical form. */
export type KeyDigests = Pick<KeyRow, "digest" | "foreignDigest">;
/** A slice of a count of an API's keys, by id. */
export interface KeyCount {
  readonly workspaceId: string;
  readonly apiId: string;
  /** Where the slice before ended; absent: this is the first. */
  readonly after?: string;
  /** Count no more keys than this, ≥ 1. */
  readonly among: number;
  /** Unix time, milliseconds: keys whose `expires`, or that of their identity, is before it are expired. */
  readonly now: number;
}
/** Of a slice, without deleted keys. */
export interface KeyCounts {
  readonly total: number;
  readonly disabled: number;
  /** Of those that are enabled. */
  readonly expired: number;
  /** Where the next slice begins, mostly the id of the last that was counted; absent: there are no more. */
  readonly last?: string;
}
/**
 * Outcome of a write (clause 13). `conflict`: read the rows again and retry. `taken`: another row has a name, a digest
 * or the new id; retrying would not help. It was made: `written`, or, if it has `credits`, the balance after it of each
 * row that has some, in order. {@link OnceRefusal} only where it has `once`.
 */
export type WriteOutcome = "written" | "conflict" | "taken" | OnceRefusal | readonly WrittenBalance[];
/** A balance as a write left it: credits that others take meanwhile are not missing yet. */
export interface WrittenBalance extends Pick<CountedBalance, "remaining"> {
  /** Credits that are leased or reserved, those of leases among them that expired and hold nothing in the store. */
  readonly reserved: number;
  /** What the change added to it, or if negative took away, as `credits.added` of an {@link AuditEntry}. */
  readonly added: number;
}
/**
 * What a store can do beyond what every store must (clause 21). Whatever needs a power that the store lacks fails with
 * STORE_POWER_MISSING, which names it.
 */
export interface StorePowers {
  /** Whether credits can be drawn into a node's memory: `drawCredits` and `returnCredits`, for the `leased` mode. */
  readonly leases: boolean;
  /**
   * Whether a draw also reserves credits in the store, up to `size`, that come back by themselves if the node crashes.
   * False: a draw takes `cost` to `step` credits, `size` and `until` have no effect, and nothing is ever reserved. True
   * only with `leases`.
   */
  readonly reserves: boolean;
  /** Whether calls with an idempotency key take their credits once (clause 23). */
  readonly idempotency: boolean;
  /** Whether it keeps when keys were last used (clause 24). */
  readonly usage: boolean;
  /** Whether it keeps the audit trail (clause 25). Absent: false. */
  readonly audit?: boolean;
  /**
   * Whether credits can be reserved and settled later (clause 27). Absent: false. `verifier.reserve` needs
   * `idempotency` too, whose secret signs its handles.
   */
  readonly reservations?: boolean;
  /** Whether it counts outcomes of verifications (clause 28). Absent: false. */
  readonly analytics?: boolean;
  /** Whether keys of several APIs can be searched, ordered and counted (clause 29). Absent: false. */
  readonly search?: boolean;
  /** Whether it keeps alerts (clause 30). Absent: false. */
  readonly alerts?: boolean;
  /** Whether one step takes credits from several accounts (clause 31). Absent: false. */
  readonly wallets?: boolean;
  /** Whether credits expire at the boundaries of a refill with a `rollover` (clause 33). Absent: false. */
  readonly rollover?: boolean;
  /** Whether it keeps the last refusals of keys (clause 34); only with `analytics`. Absent: false. */
  readonly refusals?: boolean;
  /**
   * How changes that other processes make arrive at subscribers. `own`: there are none, because no other process can
   * change what is stored. `polled`: at the latest with `pollChanges`. `pushed`: soon after they are durable, also if
   * nothing polls.
   */
  readonly changes: "own" | "polled" | "pushed";
  /**
   * What an acknowledged change survives. `none`: it ends with the process. `process`: a killed or crashed process.
   * `power`: also a crash of the system and a power cut.
   */
  readonly durability: "none" | "process" | "power";
}
/** A power that a store has or lacks. */
export type Power = {
  [K in keyof StorePowers]-?: StorePowers[K] extends boolean | undefined ? K : never;
}[keyof StorePowers];
/**
 * A change of one row that keys refer to: every record that was made of it may be outdated, and any digest that was not
 * found so far. Of a role and of a permission a store tells so only if its records have {@link KeyRecord.grantIds}.
 */
export interface RowChange {
  readonly table: "workspaces" | "apis" | "identities" | "roles" | "permissions";
  readonly id: string;
}
/**
 * What changed: the row of one digest, a row that keys refer to, any digest that was not found so far, or anything. A
 * store may always tell more than it must, `all` in place of anything else.
 */
export type Change = { readonly digest: string } | RowChange | "created" | "all";

/**
 * A store of keys. Its contract is the numbered clauses at the top of this file. It reports failures of its engine by
 * throwing, or rejecting with, a `KeystileError` STORE_…; after STORE_BUSY, STORE_FULL and STORE_READ_ONLY nothing was
 * changed, except that an `insertKeys` of several batches may have inserted others.
 * STORE_READ_ONLY from `adoptDigest` is ignored: the key still verifies. All other errors propagate unchanged.
 */
export interface Store {
  /** What the store can do besides (clause 21). */
  readonly powers: StorePowers;

  /** The key with this native digest. Verifications call it: it should not wait if the engine does not. */
  findKey(digest: string): MaybePromise<KeyRecord | undefined>;
  /**
   * {@link Store.findKey} of each digest, in one round trip (clause 20). `findEach` of `keystile/store-kit` will do.
   */
  findKeys(digests: readonly string[]): MaybePromise<(KeyRecord | undefined)[]>;
  /** The key imported under `migrationId` with this hash, in canonical form. */
  findForeignKey(migrationId: string, foreignDigest: string): MaybePromise<KeyRecord | undefined>;
  /** The root key with this digest, of any workspace, including disabled and expired ones. */
  findRootKey(digest: string): MaybePromise<RootKeyRow | undefined>;
  /** Sets the native digest of a migrated key; false if it already has one or another key has this digest. */
  adoptDigest(ref: KeyRef, digest: string): MaybePromise<boolean>;

  /**
   * Takes `cost` ≥ 0 credits in one atomic, durable step.
   * @param period `periodOf` the key's refill at `now`; 0 without refill
   * @param now Unix time, milliseconds: reserves that have expired by then return to the balance (clause 14)
   * @returns `undefined`: no such key, or it never had a balance
   */
  spendCredits(ref: KeyRef, cost: number, period: number, now: number): MaybePromise<Spend | undefined>;
  /**
   * {@link Store.spendCredits} for a call with an idempotency key: the credits are taken and the call is recorded in
   * one atomic, durable step, also where `cost` is 0 (clause 23).
   * @param ref `undefined`: the key has no balance, so that nothing is spent, and the call is recorded
   */
  spendOnce(ref: KeyRef | undefined, period: number, request: SpendOnce): MaybePromise<OnceSpend>;
  /** {@link OnceRecord.body} of the record under this id that has not expired at `now` (clause 23). */
  findOnce(id: string, now: number): MaybePromise<string | undefined>;
  /**
   * A secret of the store, to key digests with: 32 random bytes in hexadecimal, chosen when the store is made and the
   * same in every process, for ever. Power `idempotency`.
   */
  readSecret(name: SecretName): MaybePromise<string>;
  /** Records when keys were last used (clause 24). What a crash loses is recorded at the next use. */
  recordUses(uses: readonly KeyUse[]): MaybePromise<void>;
  /** Adds counts of verifications (clause 28). */
  countOutcomes(flush: OutcomeFlush): MaybePromise<FlushResult>;
  /**
   * Adds up counts (clause 28).
   * @throws (or rejects with) KeystileError ANALYTICS_TOO_LARGE · STORE_POWER_MISSING for a level that it does not keep
   */
  readOutcomes(query: OutcomeQuery): MaybePromise<OutcomeRow[]>;
  /** The totals of accounts, each in the order in which they were kept (clause 28). */
  readCreditDays(query: CreditDaysQuery): MaybePromise<CreditDay[]>;
  /**
   * Removes old counts (clause 28), and with those of days the records of processes, the totals that no later statement
   * needs, and what no count names any more.
   * @returns how many it removed of what it removed most of; fewer than `most`: nothing is left
   */
  pruneOutcomes(level: OutcomeLevel, before: number, most: number): MaybePromise<number>;
  /** The last refusals of a key, newest first (clause 34). Power `refusals`. */
  readRefusals?(query: RefusalsQuery): MaybePromise<readonly Refusal[]>;
  /** Reads a slice of the audit trail, newest first (clause 25). */
  readAudit(query: AuditQuery): MaybePromise<AuditSlice>;
  /** Moves credits from the balance into a node's memory (clause 14). `undefined`: as for `spendCredits`. */
  drawCredits(ref: KeyRef, request: DrawRequest): MaybePromise<Draw | undefined>;
  /**
   * Ends a lease: its reserve and what it drew and did not spend return to the balance, or are forfeited if the
   * balance was set since (clause 14). May be repeated.
   */
  returnCredits(ref: KeyRef, lease: LeaseReturn): MaybePromise<void>;
  /** {@link Store.spendCredits} that reserves the credits instead (clause 27). A cost of 0 reserves nothing. */
  reserveCredits(ref: KeyRef, period: number, request: Reserve): MaybePromise<Spend | undefined>;
  /** Settles a reservation of this account (clause 27). */
  settleCredits(ref: KeyRef, request: SettleRequest): MaybePromise<Settlement>;

  /**
   * The balances of keys and identities, each with the refills due at its `period` and the reserves at `now` (clause
   * 20). `undefined`: no such row.
   */
  readBalances(queries: readonly BalanceQuery[], now: number): MaybePromise<(CountedBalance | undefined)[]>;

  /** The rows with these ids, of any workspace, deleted or not (clause 20). */
  readMany<T extends Table>(table: T, ids: readonly string[]): MaybePromise<(Rows[T] | undefined)[]>;
  /** The rows with these names; unknown names are absent. */
  readNames<T extends NamedTable>(table: T, workspaceId: string, names: readonly string[]): MaybePromise<Rows[T][]>;
  /** Rows of one workspace, ordered by id (clause 16). */
  list<T extends Table>(table: T, query: ListQuery): MaybePromise<Rows[T][]>;
  /**
   * Inserts keys, durably. One result per key, in order: whether it was inserted. False: its id, digest or hash already
   * exists (clause 4).
   * @param entry of the audit trail, given only where the store keeps it (clause 25)
   * @throws (or rejects with) KeystileError NOT_FOUND: the API of a key is deleted (clause 18), or, of a store that
   * looks, is not there. Stores in memory need not look
   */
  insertKeys(keys: readonly NewKey[], entry?: AuditEntry): MaybePromise<boolean[]>;
  /**
   * Stores and removes rows, all or nothing, in one durable step (clause 13).
   * @param entries of the audit trail, given only where the store keeps it (clause 25)
   * @param once of a write with an idempotency key (clause 23); given only where the store has the power `idempotency`
   * @throws (or rejects with) KeystileError, of a store that looks: NOT_FOUND, the API of a key is not there; CONFLICT,
   * an API that is to be removed has keys
   */
  write(writes: readonly Write[], entries?: readonly AuditEntry[], once?: WriteOnce): MaybePromise<WriteOutcome>;

  /** A slice of a search (clause 29). Power `search`. */
  searchKeys?(search: KeySearch): MaybePromise<KeySlice>;
  /** A slice of a count (clause 29). Power `search`. */
  countKeys?(count: KeyCount): MaybePromise<KeyCounts>;
  /** The id of a key with this digest or hash, one result per argument, in order (clause 29). Power `search`. */
  findKeyIds?(wanted: readonly KeyDigests[]): MaybePromise<(string | undefined)[]>;

  /** Raises and ends alerts (clause 30). keystile passes at most 100. Power `alerts`. */
  changeAlerts?(changes: readonly AlertChange[]): MaybePromise<boolean[]>;
  /** Alerts of one state, by number (clause 30). Power `alerts`. */
  listAlerts?(query: AlertQuery): MaybePromise<AlertRow[]>;
  /** Takes alerts to deliver them (clause 30). Power `alerts`. */
  takeAlerts?(take: AlertTake): MaybePromise<AlertRow[]>;
  /** Says what became of one that was taken (clause 30). Power `alerts`. */
  settleAlert?(settlement: AlertSettlement): MaybePromise<void>;

  /** The wallet of an identity (clause 32); `undefined`: it is not there, or has no credits. Power `wallets`. */
  findWallet?(identityId: string): MaybePromise<OwnedWallet | undefined>;
  /**
   * Takes `cost` credits from each of the wallets (clause 31).
   * @returns as `spendOnce`; without `once` always `done`
   */
  spendWallets?(wallets: readonly Wallet[], request: WalletSpend): MaybePromise<OnceSpend>;
  /**
   * Settles a reservation that `spendWallets` made (clause 31).
   * @param wallets its accounts, those that it took from alone
   */
  settleWallets?(wallets: readonly (readonly KeyRef[])[], request: SettleRequest): MaybePromise<Settlement>;

  /** Notifies `listener` of every later change; returns a function that unsubscribes. */
  subscribe(listener: (change: Change) => void): () => void;
  /**
   * Notifies subscribers of changes that other processes made. Caching decorators call it before they use a cached
   * entry.
   * @param when the system clock in Unix milliseconds, if just read: saves reading it again. `"anew"`: poll however
   *   recent the last poll is
   */
  pollChanges(when?: number | "anew"): MaybePromise<void>;
  /**
   * Closes the store; later calls fail with STORE_CLOSED (clause 11). For the program that created it: keystile never
   * closes a store that it was given.
   */
  close(): MaybePromise<void>;
}
