/** Which balance a key draws on: one, never two. Store clause 26. */
import type { CreditRow, IdentityRow, KeyRow, NumberedRefill } from "../contracts/store.js";
import { ownProperty } from "./check-options.js";

/** Whose credits a key takes: its own, its identity's, or nobody's, so that they are unlimited. */
export type CreditsSource = "key" | "identity" | "none";

/** A key's own balance comes first; then its identity's, unless the key says otherwise. */
export function creditsSource(
  row: Pick<KeyRow, "hasCredits" | "creditsFrom">,
  identity: Pick<IdentityRow, "hasCredits"> | undefined,
): CreditsSource {
  if (row.hasCredits) return "key";
  // Own properties only: what a row lacks must not come from a polluted prototype.
  if (identity === undefined || ownProperty(row, "creditsFrom") === "none") return "none";
  return ownProperty(identity, "hasCredits") === true ? "identity" : "none";
}

/** The refill of a row, as `periodOf` needs it. */
export function refillOf(row: Partial<CreditRow>): NumberedRefill | undefined {
  const refill = ownProperty(row, "refill");
  const calendar = ownProperty(row, "refillCalendar");
  return refill === undefined || calendar === undefined ? refill : { ...refill, calendar };
}
