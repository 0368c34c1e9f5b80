/**
 * Moves a customer to another plan: the refill, and what the new plan gives more, in one write, so that a process that
 * ends in between has done neither or both.
 */
import { badRequest, type KeystileError } from "../contracts/errors.js";
import type { CreditChange, CreditRow, IdentityRow, WrittenBalance } from "../contracts/store.js";
import { periodOf } from "../credits/refill-calendar.js";
import { refillOf } from "../lib/credits-source.js";
import type { Mutable } from "../lib/mutable.js";
import { adjustment } from "./adjustment.js";
import { type Context, updateWithRetry } from "./context.js";
import { changeIdentityCredits, identityWrite } from "./identity-credits.js";
import { creditsNow, toChangedCredits } from "./keys/key-response.js";
import { changeBalance, changeKey } from "./keys/update-key.js";
import { requireKey, requireNamed } from "./rows.js";
import { newPlan } from "./schemas/grants.js";
import type { ChangePlanRequestBody } from "./schemas/requests.js";
import type { KeyCredits } from "./schemas/responses.js";
import { writeRows } from "./write.js";

/**
 * Gives an identity or a key another refill, and with `now: "difference"` at once what the new one gives more than the
 * old one.
 * @throws KeystileError BAD_REQUEST: the owner has no credits · NOT_FOUND
 */
export const changePlan = adjustment("changePlan", newPlan, change, read);

async function change(context: Context, request: ChangePlanRequestBody): Promise<KeyCredits> {
  const { identity, keyId, refill } = request;
  const now = context.clock();
  const changed: { row: Partial<CreditRow>; balance: WrittenBalance | undefined } =
    identity === undefined
      ? await changeKey(context, keyId, now, async (row) => {
          if (!row.hasCredits) throw unlimited("body.keyId", "a key");
          const more = addedBy(request, row);
          return withMore(row, await changeBalance(context, row, { refill }, now), more, now);
        })
      : await updateWithRetry(context, identity, async () => {
          const row: Mutable<IdentityRow> = { ...(await requireNamed(context, "identities", identity)) };
          if (row.hasCredits !== true) throw unlimited("body.identity", "an identity");
          const more = addedBy(request, row);
          const credits = withMore(row, await changeIdentityCredits(context, row, { refill }, now), more, now);
          const balances = await writeRows(context, [identityWrite(row, credits)]);
          return balances && { row, balance: balances[0] };
        });
  return changed.balance === undefined ? read(context, request) : toChangedCredits(changed);
}

/** Credits that are added at once: a smaller plan takes nothing away. An owner without a refill had a plan of 0. */
function addedBy({ refill, now }: ChangePlanRequestBody, row: Partial<CreditRow>): number {
  return now === "difference" ? Math.max(0, refill.amount - (row.refill?.amount ?? 0)) : 0;
}

/** @param row with its new refill, which is the old one where there is no change */
function withMore(
  row: Partial<CreditRow>,
  credits: CreditChange | undefined,
  add: number,
  now: number,
): CreditChange | undefined {
  if (add === 0) return credits;
  return { ...(credits ?? { period: periodOf(refillOf(row), now) }), now, add };
}

function unlimited(location: string, what: string): KeystileError {
  const message = `must be ${what} with credits of its own`;
  return badRequest([{ location, message, fix: "set a balance first: a plan refills one" }]);
}

async function read(context: Context, { identity, keyId }: ChangePlanRequestBody): Promise<KeyCredits> {
  return identity === undefined
    ? creditsNow(context, "keys", await requireKey(context, keyId))
    : creditsNow(context, "identities", await requireNamed(context, "identities", identity));
}
