/** Counts of verifications, as stores keep them (store clause 28). */
import type { VerificationCode } from "./types.js";

/** The outcomes, in the order of {@link OutcomeCell.counts}. A code that is left out does not compile. */
export const OUTCOMES = Object.freeze(
  Object.keys({
    VALID: true,
    NOT_FOUND: true,
    DISABLED: true,
    EXPIRED: true,
    FORBIDDEN: true,
    INSUFFICIENT_PERMISSIONS: true,
    RATE_LIMITED: true,
    USAGE_EXCEEDED: true,
  } satisfies Record<VerificationCode, true>) as VerificationCode[],
);

/** Lengths of the periods that are counted, milliseconds. */
export const LEVELS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;
/** A table of counts. */
export type OutcomeLevel = keyof typeof LEVELS;

/** In place of a key, an owner or tags that did not fit the bounds. */
export const OTHER = "(other)";

/** Most refusals that are kept of a key: the last ones. */
export const MAX_REFUSALS = 10;

/** A refused call of a key, and what decided. Texts are for people: they may be cut, and never hold the key's text. */
export interface Refusal {
  /** Unix time, milliseconds. */
  readonly time: number;
  readonly code: Exclude<VerificationCode, "VALID" | "NOT_FOUND">;
  /** A spend by id. Absent: a verification. */
  readonly kind?: "spend";
  /** Credits that the call asked for. */
  readonly cost: number;
  /** Credits that were left; absent: unlimited. */
  readonly remaining?: number;
  /**
   * Whose state or credits decided: `api` also stands for the workspace. Absent: the key's own, or nothing of these.
   */
  readonly decidedBy?: "identity" | "api";
  /** The query that the key's permissions do not satisfy, up to 256 characters of it. */
  readonly permissions?: string;
  /** The first limit that was exceeded, as the response has it. */
  readonly ratelimit?: Readonly<Record<"limit" | "duration" | "remaining" | "reset", number>> & {
    readonly name: string;
  };
  /** The client's address that an allow-list does not have, up to 64 characters; empty: the call had none. */
  readonly address?: string;
  /** Absent: none, or more than 256 characters. */
  readonly tags?: readonly string[];
}

/** Whose verifications are counted; empty texts where the key was not found, or has no owner. */
export interface OutcomeSubject {
  readonly workspaceId: string;
  readonly apiId: string;
  readonly keyId: string;
  /** Of the key's identity, when it was counted. */
  readonly externalId: string;
}
/** Verifications of one subject with the same tags in one minute. */
export interface OutcomeCell extends OutcomeSubject {
  /** Start of the minute, Unix time in milliseconds. */
  readonly minute: number;
  /** The account that its credits came from; absent: it has none. */
  readonly account?: string | number;
  /** Where those are a cap inside the credits of an identity: the main account of that. */
  readonly ownerAccount?: string | number;
  /** Sorted, without duplicates. */
  readonly tags: readonly string[];
  /** How many ended with each of {@link OUTCOMES}. */
  readonly counts: readonly number[];
  /** Credits that they took, and those that settled reservations kept, whose calls were counted before. */
  readonly spent: number;
  /** The last refusals of the key, at most {@link MAX_REFUSALS}, newest first. Absent: none, or none is kept. */
  readonly refusals?: readonly Refusal[];
}
/** Cells that are counted in one step. */
export interface OutcomeFlush {
  /** Random id of whoever counted. */
  readonly source: string;
  /** 1, 2, 3, … of this source. */
  readonly seq: number;
  /** When it was made, Unix time in milliseconds. */
  readonly at: number;
  /**
   * Sets of tags that the store may keep of a workspace at once: further ones are counted as `["(other)"]`. A set is
   * kept for as long as a count names it.
   */
  readonly maxTagSets: number;
  /** keystile passes at most 50, with at most 65,536 characters of tags unless it is one cell. */
  readonly cells: readonly OutcomeCell[];
}
/** What became of a flush. */
export interface FlushResult {
  /** `repeated`: it was counted before. `gap`: the one before it was not, so nothing was. */
  readonly outcome: "counted" | "repeated" | "gap";
  /**
   * Places of the cells whose tags were counted as `["(other)"]`, because their workspace has as many sets as it may;
   * empty unless `counted`.
   */
  readonly folded: readonly number[];
  /**
   * Milliseconds for which a thread of this process could do nothing else. keystile passes fewer cells at once where
   * it was long. Absent: none.
   */
  readonly busy?: number;
}

/** The refusals of a key. */
export interface RefusalsQuery {
  readonly workspaceId: string;
  readonly keyId: string;
}

/** What rows of counts may be told apart by. */
export type OutcomeDimension = "time" | "apiId" | "keyId" | "externalId" | "tags";
/** Selects and adds up counts. */
export interface OutcomeQuery {
  readonly level: OutcomeLevel;
  readonly workspaceId: string;
  /** Unix time in milliseconds, multiples of the level: from here on, */
  readonly from: number;
  /** and before this. */
  readonly to: number;
  readonly by: readonly OutcomeDimension[];
  /** Only these; absent: all. */
  readonly apiIds?: readonly string[];
  readonly keyIds?: readonly string[];
  readonly externalIds?: readonly string[];
  /**
   * Only the counts of one part of the keys and APIs, `at` of 0 to `of − 1`: the store puts each into one part, the
   * same in every call. Absent: of all.
   */
  readonly part?: { readonly of: number; readonly at: number };
  /** Counts that may be read; the store fails with ANALYTICS_TOO_LARGE where there are more. */
  readonly maxRows: number;
}
/** Sums of one group; the dimensions that were asked for, and no others. */
export interface OutcomeRow {
  /** Start of the period, Unix time in milliseconds. */
  readonly time?: number;
  readonly apiId?: string;
  readonly keyId?: string;
  readonly externalId?: string;
  readonly tags?: readonly string[];
  /** As in {@link OutcomeCell}. */
  readonly counts: readonly number[];
  readonly spent: number;
  /** How many counts were added up. */
  readonly rows: number;
}

/** Selects the accounts that a key was ever counted with, or that an owner ever had. */
export interface CreditDaysQuery {
  readonly workspaceId: string;
  readonly keyId?: string;
  readonly externalId?: string;
  /** Unix time in milliseconds, multiples of a day: the last totals before `from` are returned too. */
  readonly from: number;
  readonly to: number;
}
/**
 * The totals of an account as of a day, or of the time for which it had one owner. What differs from the row before it
 * is of its day, which is earlier than that of the row before it where a clock was ahead.
 */
export interface CreditDay {
  readonly account: string;
  /** Whose it was up to then; empty: of a key without an owner. Absent: the account is nobody's from then on. */
  readonly externalId?: string;
  /** The account was a cap: calls of its keys took from their owner's credits too. */
  readonly isCap?: boolean;
  /** As in {@link CreditTotals} of the store, like the next five. */
  readonly credited: number;
  readonly refilled: number;
  readonly adjusted: number;
  readonly spent: number;
  readonly forfeited: number;
  readonly expired?: number;
  /** Start of the day, Unix time in milliseconds. */
  readonly day: number;
  /** What was left, leased credits included: `credited + refilled + adjusted − spent − forfeited − expired`. */
  readonly balance: number;
  /** Of an account of keys, as it is now: the id of the first of them. Absent: it is no such account, or gone. */
  readonly keyId?: string;
  /** Likewise of an identity's: its id. */
  readonly identityId?: string;
  /** Likewise of a grant's: the id of its row. */
  readonly grantId?: string;
  /** When the grant expires, Unix time in milliseconds. Absent: never, or it is no grant's. */
  readonly expires?: number;
}
