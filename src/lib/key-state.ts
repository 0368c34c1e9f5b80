/** The state of a key: one function for the filter of lists, their rows, and pages. */

/** The states, in the order in which a verification finds them. */
export const KEY_STATES = ["deleted", "disabled", "rotated", "expired", "forbidden", "exhausted", "active"] as const;

/**
 * The first that holds: `deleted`, or its API is; `disabled`; `rotated`: it was replaced, and its overlap has ended;
 * `expired`, or its owner is; `forbidden`: its API, workspace or owner is disabled; `exhausted`: the credits that it
 * takes are used up, its own or those of its identity; `active`: none of these. A verification that asks for nothing
 * and costs 1 is NOT_FOUND, DISABLED, EXPIRED of both, FORBIDDEN, USAGE_EXCEEDED and VALID.
 */
export type KeyState = (typeof KEY_STATES)[number];

/** What forbids the use of a key while it is disabled. */
export const DISABLED_PARENTS = ["workspace", "api", "identity"] as const;
/** One of these. */
export type DisabledParent = (typeof DISABLED_PARENTS)[number];

/** What lists are filtered by: a state, or `replaced`, as {@link isListedAs} says. */
export const LISTED_STATES = [...KEY_STATES, "replaced"] as const;
/** A value of the filter of lists. */
export type ListedState = (typeof LISTED_STATES)[number];

/**
 * Whether a list of one state shows a key in another: `expired` has those that were rotated away too, and `replaced`
 * those whose overlap has not ended.
 */
export function isListedAs(wanted: ListedState, state: KeyState, rerolledTo: string | undefined): boolean {
  if (wanted === "replaced") return rerolledTo !== undefined && OPEN.has(state);
  return state === wanted || (state === "rotated" && wanted === "expired");
}

/** Enabled keys whose end has not come. */
const OPEN: ReadonlySet<KeyState> = new Set(["forbidden", "exhausted", "active"]);

/** What decides it. */
export interface StateFacts {
  /** Whether it or its API is deleted. */
  readonly deleted?: boolean;
  readonly enabled: boolean;
  /** Unix time, milliseconds. */
  readonly expires?: number;
  /** Id of the key that replaced it. */
  readonly rerolledTo?: string;
  /** Of its owner; Unix time, milliseconds. */
  readonly ownerExpires?: number | undefined;
  /** Whether its API, workspace or owner is disabled. */
  readonly parentDisabled?: boolean;
  /** Of the credits that it takes, whoever owns them; null or absent: unlimited. */
  readonly remaining?: number | null | undefined;
}

/** @param now Unix time, milliseconds: at exactly `expires` a key is valid */
export function keyState(facts: StateFacts, now: number): KeyState {
  if (facts.deleted === true) return "deleted";
  if (!facts.enabled) return "disabled";
  if (facts.expires !== undefined && now > facts.expires) return facts.rerolledTo === undefined ? "expired" : "rotated";
  if (facts.ownerExpires !== undefined && now > facts.ownerExpires) return "expired";
  if (facts.parentDisabled === true) return "forbidden";
  return facts.remaining === 0 ? "exhausted" : "active";
}
