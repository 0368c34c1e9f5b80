/** Sets, increments or decrements a balance: the operation `keys.updateCredits`. Balances stop at 0 and 2^53 − 1. */
import { badRequest } from "../../contracts/errors.js";
import { periodOf } from "../../credits/refill-calendar.js";
import { refillOf } from "../../lib/credits-source.js";
import { adjustment } from "../adjustment.js";
import { requireKey } from "../rows.js";
import { changedKeyBalance } from "../schemas/credits.js";
import { creditsNow, toChangedCredits } from "./key-response.js";
import { changeBalance, changeKey } from "./update-key.js";

/**
 * `set` with null makes a key unlimited, whatever its identity has, and clears its refill. Returns the balance as
 * the change left it.
 * @throws KeystileError BAD_REQUEST, also for `increment` and `decrement` on an unlimited key · NOT_FOUND
 */
export const updateCredits = adjustment(
  "updateCredits",
  changedKeyBalance,
  async (context, { keyId, value = null, operation }) => {
    const now = context.clock();
    const changed = await changeKey(context, keyId, now, (row) => {
      if (value === null || operation === "set") return changeBalance(context, row, { remaining: value }, now);
      if (!row.hasCredits) throw badRequest([UNLIMITED]);
      return { period: periodOf(refillOf(row), now), now, add: operation === "increment" ? value : -value };
    });
    return toChangedCredits(changed);
  },
  async (context, { keyId }) => creditsNow(context, "keys", await requireKey(context, keyId)),
);

const UNLIMITED = {
  location: "body.operation",
  message: "does not fit a key without a balance of its own",
  fix: 'give the key a balance first, with "set", or change the credits of its identity',
};
