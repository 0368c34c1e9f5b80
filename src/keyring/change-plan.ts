/**
 * Moves a customer to another plan: the refill, and what the new plan gives more, in one write, so that a process that
 * ends in between has done neither or both.
 */
import type { CreditRow } from "../contracts/store.js";
import { periodOf } from "../credits/refill-calendar.js";
import { refillOf } from "../lib/credits-source.js";
import { adjustment } from "./adjustment.js";
import type { Context } from "./context.js";
import { toChangedCredits } from "./keys/key-response.js";
import { newPlan } from "./schemas/grants.js";
import type { ChangePlanRequestBody } from "./schemas/requests.js";
import type { KeyCredits } from "./schemas/responses.js";
import { changeOwner, creditsOf, unlimited } from "./update-credits.js";

/**
 * Gives an identity or a key another refill, and with `now: "difference"` at once what the new one gives more than the
 * old one.
 * @throws KeystileError BAD_REQUEST: the owner has no credits · NOT_FOUND
 */
export const changePlan = adjustment("changePlan", newPlan, change, creditsOf);

async function change(context: Context, request: ChangePlanRequestBody): Promise<KeyCredits> {
  const { refill } = request;
  const { now } = context;
  const changed = await changeOwner(context, request, async (row, set) => {
    if (row.hasCredits !== true) throw unlimited(request, "set a balance first: a plan refills one");
    const add = addedBy(request, row);
    const credits = await set({ refill });
    // The new refill may be the old one, where there is no change.
    return add === 0 ? credits : { ...(credits ?? { period: periodOf(refillOf(row), now) }), now, add };
  });
  return changed.balance === undefined ? creditsOf(context, request) : toChangedCredits(changed);
}

/** Credits that are added at once: a smaller plan takes nothing away. An owner without a refill had a plan of 0. */
function addedBy({ refill, now }: ChangePlanRequestBody, row: Partial<CreditRow>): number {
  return now === "difference" ? Math.max(0, refill.amount - (row.refill?.amount ?? 0)) : 0;
}
