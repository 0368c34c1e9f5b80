/** The state of a key: one function for the filter of lists, their rows, and pages. */

/**
 * The first that holds: `disabled`; `expired`; `exhausted`: the credits that it takes are used up, its own or those of
 * its identity; `active`: none of these. In the order in which a verification finds them.
 */
export type KeyState = "disabled" | "expired" | "exhausted" | "active";

/** What decides it. */
export interface StateFacts {
  readonly enabled: boolean;
  /** Unix time, milliseconds. */
  readonly expires?: number;
  /** Of the credits that it takes, whoever owns them; null or absent: unlimited. */
  readonly remaining?: number | null | undefined;
}

/** @param now Unix time, milliseconds: at exactly `expires` a key is valid */
export function keyState({ enabled, expires, remaining }: StateFacts, now: number): KeyState {
  if (!enabled) return "disabled";
  if (expires !== undefined && now > expires) return "expired";
  return remaining === 0 ? "exhausted" : "active";
}
