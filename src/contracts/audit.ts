/** An entry of the audit trail: who changed what, and when. Types only. */
import type { Json } from "./types.js";

/**
 * One change that administration made. Contains ids, names of fields, values of those that are short, and amounts of
 * credits; no key, hash or token.
 */
export interface AuditEntry {
  /** Unix time, milliseconds. */
  readonly time: number;
  readonly workspaceId: string;
  /**
   * What kind of caller it was: `program` for the program itself, `rootKey` or `proxyToken` for a credential, `owner`
   * for a customer by `forOwner` or the portal, what an authenticator of your own says, else `caller`.
   */
  readonly actorKind: string;
  /**
   * Id of the root key, subject of the token, `externalId` of the owner, or for `program` the option `actor`; at most
   * 1,024 characters. Absent: not known.
   */
  readonly actor?: string;
  /** The operation, such as `createKey` or `setOverride`. */
  readonly operation: string;
  /** Of the rows that were made, changed or removed, at most 100; of an import those of the migration and the API. */
  readonly ids: readonly string[];
  /** Names of the fields that were changed, sorted; empty for what was made or removed. */
  readonly fields: readonly string[];
  /**
   * Old and new values of the fields, sorted by name, together at most 2,000 characters of JSON. Left out, and only
   * named in `fields`: metadata, values that are longer, and values that are not the same in all rows of the entry.
   */
  readonly changes?: readonly AuditChange[];
  /** How many rows were made, changed or removed; of an import: keys. */
  readonly count: number;
  /** What it did to a balance. Absent: it changed none, or the store does not say. */
  readonly credits?: AuditCredits;
  /** Why, as whoever made the change said: for people, 1–255 code points. Absent: nobody said. */
  readonly reason?: string;
}
/** What a field was and is. Permissions, roles and identities have the names that they had then. */
export interface AuditChange {
  /** One of `fields`; of `credits` it is `refill`. */
  readonly field: string;
  /** Absent: it had none, or it is a list. */
  readonly from?: Json;
  /** Absent: it has none any more, or it is a list. */
  readonly to?: Json;
  /** What a list lost. Absent: nothing. */
  readonly removed?: readonly Json[];
  /** What a list gained. Absent: nothing. */
  readonly added?: readonly Json[];
}
/** What a change did to the balance of a key, an identity or a grant. */
export interface AuditCredits {
  /**
   * Credits that it added, or if negative took away. Refills that were due, and reserves that came back with it, are
   * not among them. Of a balance that became unlimited: minus what it had.
   */
  readonly added: number;
  /** The balance as the change left it, without leased and reserved credits; null: unlimited. */
  readonly remaining: number | null;
  /** Of a grant: the id that it was given. Absent: it is the balance of a key or an identity. */
  readonly grantId?: string;
}

/** Which entries of the audit trail: those of a slice of it that are all of these. */
export interface AuditQuery {
  readonly workspaceId: string;
  /** Only entries that name one of these. keystile passes at most 1,000. */
  readonly ids?: readonly string[];
  readonly actor?: string;
  readonly operation?: string;
  /** Unix time in milliseconds: from here on, */
  readonly from?: number;
  /** and before this. */
  readonly to?: number;
  /** Begin before the entry of this number; absent: with the newest. */
  readonly before?: number;
  /** Look at no more entries of the workspace than this, ≥ 1. */
  readonly among: number;
  /** At most this many entries, ≥ 1. */
  readonly limit: number;
}

/** Entries that were found, newest first, and where the next slice begins. */
export interface AuditSlice {
  /** Each with its number: higher than those of the entries before it. */
  readonly entries: readonly (AuditEntry & { readonly number: number })[];
  /** `before` of the next slice; absent: there are no older entries. */
  readonly next?: number;
}
