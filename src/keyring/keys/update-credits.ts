/** Sets, increments or decrements a balance: the operation `keys.updateCredits`. Balances stop at 0 and 2^53 − 1. */
import { badRequest } from "../../contracts/errors.js";
import { periodOf } from "../../credits/refill-calendar.js";
import { operation } from "../operation.js";
import { requireKey } from "../rows.js";
import { changedKeyBalance } from "../schemas/credits.js";
import type { KeyCredits } from "../schemas/responses.js";
import { readCredits } from "./key-response.js";
import { changeBalance, writeKey } from "./update-key.js";

/**
 * `set` with null makes a key unlimited, whatever its identity has, and clears its refill. Returns the balance after
 * the change, which may include concurrent spends.
 * @throws KeystileError BAD_REQUEST, also for `increment` and `decrement` on an unlimited key · NOT_FOUND
 */
export const updateCredits = operation(
  "updateCredits",
  changedKeyBalance,
  async (context, { keyId, value = null, operation }) => {
    const now = context.clock();
    await writeKey(context, keyId, now, (row) => {
      if (value === null || operation === "set") return changeBalance(context, row, { remaining: value }, now);
      if (!row.hasCredits) throw badRequest([UNLIMITED]);
      return { period: periodOf(row.refill, now), now, add: operation === "increment" ? value : -value };
    });
    const [credits] = await readCredits(context, "keys", [await requireKey(context, keyId)], now);
    return credits as KeyCredits;
  },
);

const UNLIMITED = {
  location: "body.operation",
  message: "does not fit a key without a balance of its own",
  fix: 'give the key a balance first, with "set", or change the credits of its identity',
};
