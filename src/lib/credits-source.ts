/** Which wallets cover a key's calls. Store clause 26. */
import type { CreditRow, IdentityRow, KeyRow, NumberedRefill } from "../contracts/store.js";
import { ownProperty } from "./check-options.js";

/**
 * Whose credits a key takes: its own, its identity's, both at once, so that its own are a cap, or nobody's, so that
 * they are unlimited.
 */
export type CreditsSource = (typeof CREDITS_SOURCES)[number];
export const CREDITS_SOURCES = ["key", "identity", "both", "none"] as const;

/** A key's own credits, if it has some; and its identity's, if that has some and the key does not say otherwise. */
export function creditsSource(
  row: Pick<KeyRow, "hasCredits" | "creditsFrom">,
  identity: Pick<IdentityRow, "hasCredits"> | undefined,
): CreditsSource {
  // Own properties only: what a row lacks must not come from a polluted prototype.
  const isCovered =
    ownProperty(row, "creditsFrom") === undefined &&
    identity !== undefined &&
    ownProperty(identity, "hasCredits") === true;
  if (row.hasCredits) return isCovered ? "both" : "key";
  return isCovered ? "identity" : "none";
}

/** Whether a key takes credits of its identity. */
export function drawsOnIdentity<I extends Pick<IdentityRow, "hasCredits">>(
  row: Pick<KeyRow, "hasCredits" | "creditsFrom">,
  identity: I | undefined,
): identity is I {
  const source = creditsSource(row, identity);
  return source === "identity" || source === "both";
}

/** The refill of a row, as `periodOf` needs it. */
export function refillOf(row: Partial<CreditRow>): NumberedRefill | undefined {
  const refill = ownProperty(row, "refill");
  const calendar = ownProperty(row, "refillCalendar");
  return refill === undefined || calendar === undefined ? refill : { ...refill, calendar };
}
