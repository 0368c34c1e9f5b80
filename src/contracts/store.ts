/**
 * The Store port: what keystile needs of a place that keeps keys. Types only. Spec §2, rulings D, E.
 *
 * Why two halves: *finding* a key returns what rarely changes and may be cached; *spending* owns what always changes. Every
 * rule of administration lives in `keyring/`, so a store keeps rows, names and balances and knows no rule but the clauses.
 *
 * The contract (`test/stores/suite.ts` tries each clause on every store):
 *  1. What is unknown is `undefined`, or absent from a list; never an error.
 *  2. Digests, ids and names match exactly and case-sensitively, without Unicode normalisation.
 *  3. Any row survives a round trip: Unicode, empty lists, 0, absent properties, `__proto__` inside meta, credits to 2^53 − 1.
 *  4. `insertKeys` reports each duplicate by itself; the others go in.
 *  5. Concurrent spends never grant more than was there; a cost above the balance takes nothing.
 *  6. A cost of 0 changes nothing and returns the balance with refills and expired reserves counted.
 *  7. Counted periods only move forward; an earlier period refills nothing. Balances stop at 2^53 − 1. A spend or draw whose period is of
 *     another calendar than the balance's changes nothing and is `stale`. At most 400 daily or 24 monthly boundaries are refilled at once.
 *  8. A change is seen by the next find: in this process at once, in others after their next `pollChanges`.
 *  9. A fill that began before a change never brings the old record back (for decorators that remember).
 * 10. A returned object cannot change the store.
 * 11. After `close()` every call fails with STORE_CLOSED; `close()` again does nothing.
 * 12. Two new stores share nothing.
 * 13. `write` is all or nothing, and answers false, changing nothing, if any row changed since it was read, its name is taken, or
 *     its balance has counted further than `credits.counted`.
 * 14. Draws never hand out more than was there; an expired reserve comes back to whoever spends or draws next and would be refused
 *     without it; a set balance voids older leases.
 * 15. Every change that a find could see is told to `changes` listeners after it is durable, and every change of an identity, a role or a
 *     permission, since imports remember their names too.
 * 16. Lists are ordered by id, start after `after`, never exceed `limit`, and leave deleted keys and APIs out.
 * 17. Names of one workspace are unknown in another.
 * 18. Deleted keys, and keys of deleted APIs, are not found.
 * 19. A root key's digest is unique in the store and found whatever the workspace; a change of a root key is told as its digest.
 */
import type { Identity, JsonObject, MaybePromise, RatelimitResponse, Refill } from "./types.js";

/** The store's own short handle of a key: opaque to the core, never used again for another key. */
export type KeyRef = string | number;
/** What a verification needs of a key, ready-made: roles flattened, numbers of limits as given, no counters. Immutable. */
export interface KeyRecord {
  readonly ref: KeyRef;
  readonly keyId: string;
  readonly workspaceId: string;
  readonly apiId: string;
  readonly name?: string;
  readonly meta?: JsonObject;
  /** Unix time, milliseconds, the last at which it is valid (ruling A3); absent: never. */
  readonly expires?: number;
  readonly enabled: boolean;
  /** Direct and through roles; sorted, without duplicates. */
  readonly permissions: readonly string[];
  /** Sorted, without duplicates. */
  readonly roles: readonly string[];
  readonly identity?: Identity;
  readonly ratelimits: readonly RatelimitResponse[];
  /** It has a balance of credits. False: unlimited, `spendCredits` need not be asked. */
  readonly hasCredits: boolean;
  readonly refill?: Refill;
  /** Grows whenever an administrator sets the balance: leases of an older generation are void. */
  readonly generation: number;
  /** Its API or workspace is disabled (ruling A4). */
  readonly parentDisabled: boolean;
  /** A migrated key without its native digest yet (ruling E4). */
  readonly unadopted: boolean;
  /** The non-empty allow-lists of the key and its API; an address must be in each (ruling A4). */
  readonly ipAllowlists: readonly (readonly string[])[];
}
/** What every row has. */
export interface Versioned {
  /** Unique in its table, whatever the workspace; at most 255 code points, compared exactly. */
  readonly id: string;
  /** Counts its changes: 0 in a row that is not stored yet, then as read. `write` compares it and stores the next (clause 13). */
  readonly version: number;
}
/** A workspace: what owns everything else. One without a row is enabled; keys of a disabled one are FORBIDDEN (ruling A4). */
export interface WorkspaceRow extends Versioned {
  readonly enabled: boolean;
}
/** All other rows belong to one workspace. */
export interface OwnedRow extends Versioned {
  readonly workspaceId: string;
}
/** An API: where keys belong; those of a disabled one are FORBIDDEN (ruling A4). Several may have one `name`. */
export interface ApiRow extends OwnedRow {
  readonly name: string;
  readonly enabled: boolean;
  /** Empty: any address. */
  readonly ipAllowlist: readonly string[];
  /** True: it is not listed, and its keys are not found (clauses 16, 18). */
  readonly deleted: boolean;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
}
/** What keys belong to, and share the limits of. Its name within the workspace is `externalId`. */
export interface IdentityRow extends OwnedRow {
  readonly externalId: string;
  readonly meta?: JsonObject;
  readonly ratelimits: readonly RatelimitResponse[];
}
/** Permissions under one name. Its name within the workspace is `name`; `description` is for people. */
export interface RoleRow extends OwnedRow {
  readonly name: string;
  readonly description?: string;
  /** Ids of permissions; those deleted since count as absent. */
  readonly permissions: readonly string[];
}
/** Its name within the workspace is `slug`: the text that queries and grants compare. `name` and `description` are for people. */
export interface PermissionRow extends OwnedRow {
  readonly name: string;
  readonly slug: string;
  readonly description?: string;
}
/** How the keys of an import were hashed: the algorithm's name. Its own name within the workspace is its id. Ruling E3. */
export interface MigrationRow extends OwnedRow {
  readonly algorithm: string;
}
/** Lets a caller in while enabled. Its name within the workspace is `digest`, which is unique in the store as well. Spec §5. */
export interface RootKeyRow extends OwnedRow {
  /** Native digest (ruling E5). */
  readonly digest: string;
  /** First characters of the root key, for people; never enough to guess it. */
  readonly start: string;
  readonly name?: string;
  /** Grants in either form (rulings B6, B7). */
  readonly permissions: readonly string[];
  /** Unix time, milliseconds, the last at which it lets anyone in; absent: never. */
  readonly expires?: number;
  readonly enabled: boolean;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
}
/** Where rate limits of anything but keys live. Its name within the workspace is `name`. */
export interface NamespaceRow extends OwnedRow {
  readonly name: string;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
}
/** Another limit for one identifier of a namespace. Its name within the workspace is `namespaceId`, a space and `identifier`. */
export interface OverrideRow extends OwnedRow {
  readonly namespaceId: string;
  readonly identifier: string;
  /** Tokens a window, ≥ 0. */
  readonly limit: number;
  /** Window, milliseconds, ≥ 1_000. */
  readonly duration: number;
}
/** A key as administration keeps it; its balance is apart ({@link CountedBalance}). An identity deleted since counts as absent. */
export interface KeyRow extends OwnedRow {
  readonly apiId: string;
  /** Native digest (ruling E5); absent while a migrated key is pending. Unique in the store. */
  readonly digest?: string;
  /** Set on migrated keys only. */
  readonly migrationId?: string;
  /** The imported hash as given. */
  readonly hash?: string;
  /** The imported hash in the one form that is compared. Unique in the store. */
  readonly foreignDigest?: string;
  /** First characters of the key, for people; never enough to guess it; `...` for an imported one. */
  readonly start: string;
  /** For people, 1–255 code points. */
  readonly name?: string;
  /** As given: at most 64 KB, 32 levels and 100 properties, as {@link JsonObject} says; verifications answer it. */
  readonly meta?: JsonObject;
  /**
   * Unix time, milliseconds, the last at which it is valid (ruling A3); absent: never. Requests give at most 4_102_444_800_000; a time in
   * seconds goes in too, and is EXPIRED at once.
   */
  readonly expires?: number;
  /** False: every verification is DISABLED. A new key is enabled unless the request says otherwise. */
  readonly enabled: boolean;
  readonly identityId?: string;
  /** Ids of permissions granted directly; those deleted since count as absent. */
  readonly permissions: readonly string[];
  /** Ids of roles; those deleted since count as absent. */
  readonly roles: readonly string[];
  readonly ratelimits: readonly RatelimitResponse[];
  /** Addresses and CIDR ranges that it may be used from, at most 1,000; empty: any (ruling A4). */
  readonly ipAllowlist: readonly string[];
  /** It has a balance of credits; false: unlimited. */
  readonly hasCredits: boolean;
  readonly refill?: Refill;
  /** Unix time, milliseconds: no calendar counts boundaries up to it again. Absent: `createdAt` (ruling A7). */
  readonly refillCursor?: number;
  /** As in {@link KeyRecord.generation}. */
  readonly generation: number;
  /** True: it is neither found nor listed, and its digests stay taken (clauses 16, 18). */
  readonly deleted: boolean;
  /** Unix time, milliseconds. */
  readonly createdAt: number;
  /** Unix time, milliseconds, of the last change by administration; absent: none since it was made. */
  readonly updatedAt?: number;
}
/** The kinds of row, by table. */
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
  keys: KeyRow;
}
/** The tables, by name. */
export type Table = keyof Rows;
/** Tables whose rows have a name that is unique in their workspace. */
export type NamedTable = Exclude<Table, "workspaces" | "apis" | "keys">;
/** A new key, its `version` 0, with its first balance. */
export interface NewKey {
  readonly row: KeyRow;
  /** Absent: unlimited. */
  readonly balance?: NewBalance;
}
/** What a limited key begins with. */
export interface NewBalance {
  /** 0…2^53 − 1. */
  readonly remaining: number;
  /** Credits added per period; 0 without refill. */
  readonly amount: number;
  /** The calendar and its periods counted so far (`periodOf`). */
  readonly period: number;
}
/**
 * A change of a balance, in this order: refills due at `period` are counted, then `remaining` or the copied balance replaces or `add` is
 * added (stopping at 0 and at 2^53 − 1), then `refill` replaces the calendar.
 */
export interface CreditChange {
  /** `periodOf` the refill as it was, at the time of the change. Of another calendar than the balance's: only `remaining` may be set. */
  readonly period: number;
  /**
   * Id of another key whose balance, with its refills due at `period` counted, becomes this one, periods counted included; 0 where it has
   * none. Read in the same atomic step, so that a spend in between is in neither or in both.
   */
  readonly copyOf?: string;
  /** Refuses the write when more periods than these are counted by then (clause 13). */
  readonly refillsCounted?: number;
  /** null: unlimited. */
  readonly remaining?: number | null;
  /** May be negative; without effect on an unlimited key. */
  readonly add?: number;
  /** `amount`: credits added per period, 0 without refill. No `period`: the periods counted so far stay. */
  readonly refill?: { readonly amount: number; readonly period?: number };
}
/** One row to store (`version` 0: it must be new), keys also with `credits`; or to remove (it must be as it was read). */
export type Write = {
  [T in Table]:
    | { readonly table: T; readonly row: Rows[T]; readonly credits?: T extends "keys" ? CreditChange : never }
    | { readonly table: T; readonly remove: string; readonly version: number };
}[Table];
/** Which rows of a table, in the order of their ids (clause 16). */
export interface ListQuery {
  readonly workspaceId: string;
  /** Keys only. */
  readonly apiId?: string;
  /** Keys only. */
  readonly identityId?: string;
  /** Overrides only. */
  readonly namespaceId?: string;
  /** Part of the name (`externalId`, role name, permission slug), case-sensitive. Named tables only. */
  readonly search?: string;
  /** Only ids above this one. */
  readonly after?: string;
  /** At most this many rows, ≥ 1. */
  readonly limit: number;
}
/** A balance with its due refills counted, but not stored. */
export interface CountedBalance {
  /** Expired reserves included. null: unlimited. */
  readonly remaining: number | null;
  /** Periods counted: those asked for, or more where more were counted already; of another calendar: the balance's own, nothing counted. */
  readonly period: number;
  /** Credits that nodes have in reserve in the store, besides `remaining`; what a node has drawn into its memory is in neither. */
  readonly reserved: number;
}
/** Outcome of a spend. */
export interface Spend {
  /** False: the balance is below the cost, and nothing was taken. */
  readonly ok: boolean;
  /** Balance after it; untouched when refused; null: unlimited. */
  readonly remaining: number | null;
  /** Boundaries whose refills were not given, since too many were due at once (clause 7). Absent: none. */
  readonly forfeited?: number;
  /**
   * The period was of another calendar than the balance's: nothing was taken, `ok` is false and `remaining` says nothing. Find the key again
   * and ask with its calendar (clause 7). Absent: it was not.
   */
  readonly stale?: true;
}
/** A node's wish for credits to spend from its own memory. */
export interface DrawRequest {
  /** The drawing verifier's own random id. */
  readonly holder: string;
  /** At least this much, or nothing. */
  readonly cost: number;
  /** Draw at most this, or `cost` if that is more: a crash forfeits what is left. */
  readonly step: number;
  /** At most this much in hand and in reserve together. The reserve of a crashed node comes back once it expires. */
  readonly size: number;
  /** `periodOf` the key's refill now; 0 without refill. */
  readonly period: number;
  /** Unix time, milliseconds: reserves of others that expired by then come back. */
  readonly now: number;
  /** When the reserve expires, Unix milliseconds. */
  readonly until: number;
}
/** What a draw gave. */
export interface Draw {
  /** 0: not enough was there. */
  readonly drawn: number;
  /** Generation of the balance that it came from. */
  readonly generation: number;
  /** Left for this holder in the store after the draw, its own reserve included; null: unlimited. */
  readonly remaining: number | null;
  /** As in {@link Spend.forfeited}. */
  readonly forfeited?: number;
  /** As in {@link Spend.stale}: nothing was drawn. */
  readonly stale?: true;
}
/** What may have become stale: one digest, every digest not found so far, or everything. */
export type Change = { readonly digest: string } | "created" | "all";

/**
 * A place that keeps keys. The clauses above are its contract. What it cannot do it says by throwing, or rejecting with, a `KeystileError`
 * STORE_…; with STORE_BUSY, STORE_FULL and STORE_READ_ONLY nothing was changed. STORE_READ_ONLY from `adoptDigest` is passed over: the key
 * verifies all the same. All else rises as it is.
 */
export interface Store {
  /** The key whose native digest this is. */
  findKey(digest: string): MaybePromise<KeyRecord | undefined>;
  /** The key imported under `migrationId` with this hash, in compared form. */
  findForeignKey(migrationId: string, foreignDigest: string): MaybePromise<KeyRecord | undefined>;
  /** The root key whose digest this is, of any workspace, as it stands: disabled and expired ones too. */
  findRootKey(digest: string): MaybePromise<RootKeyRow | undefined>;
  /** Gives a pending key its native digest; false if it has one or another key holds it (ruling E4). */
  adoptDigest(ref: KeyRef, digest: string): MaybePromise<boolean>;

  /**
   * Takes `cost` ≥ 0 credits in one atomic, durable step. `undefined`: no such key, or it never had a balance.
   * @param period `periodOf` the key's refill now; 0 without refill
   * @param now Unix time, milliseconds: reserves that expired by then come back (clause 14)
   */
  spendCredits(ref: KeyRef, cost: number, period: number, now: number): MaybePromise<Spend | undefined>;
  /** Moves credits from the balance into a node's memory (clause 14). `undefined`: as for `spendCredits`. */
  drawCredits(ref: KeyRef, request: DrawRequest): MaybePromise<Draw | undefined>;
  /** Gives back a holder's reserve and what it did not spend; without effect when `generation` is not the balance's. */
  returnCredits(ref: KeyRef, holder: string, generation: number, unspent: number): MaybePromise<void>;

  /** Balance of a key by id with the refills due at `period`, and reserves as they stand at `now`; `undefined`: no such key. */
  readBalance(keyId: string, period: number, now: number): MaybePromise<CountedBalance | undefined>;

  /** The row with this id, of any workspace, deleted or not. */
  read<T extends Table>(table: T, id: string): MaybePromise<Rows[T] | undefined>;
  /** The rows that have these names; unknown names are absent. */
  readNames<T extends NamedTable>(table: T, workspaceId: string, names: readonly string[]): MaybePromise<Rows[T][]>;
  /** Rows of one workspace by id (clause 16). */
  list<T extends Table>(table: T, query: ListQuery): MaybePromise<Rows[T][]>;
  /** Adds keys, durably. One answer per key, in order: whether it went in. False: its id, digest or hash is there already (clause 4). */
  insertKeys(keys: readonly NewKey[]): MaybePromise<boolean[]>;
  /**
   * Stores and removes rows, all or nothing, in one durable step. False, having changed nothing: one is not as it was read, its name is
   * taken, or its balance has counted further than `credits.counted` (clause 13).
   */
  write(writes: readonly Write[]): MaybePromise<boolean>;

  /** Tells `listener` of every change from now on; the result ends that. */
  subscribe(listener: (change: Change) => void): () => void;
  /**
   * Passes on what other processes changed. Decorators that remember call it before they trust their memory.
   * @param now the system's clock in Unix milliseconds, if just read: saves a second read. NaN: always asks
   */
  pollChanges(now?: number): MaybePromise<void>;
  /** Ends it; later calls fail with STORE_CLOSED (clause 11). For the program that made it: keystile closes no store that it was given. */
  close(): MaybePromise<void>;
}
