/** Sets, increments or decrements a balance: the operation `keys.updateCredits`. Balances stop at 0 and 2^53 − 1. */
import { badRequest } from "../../contracts/errors.js";
import { periodOf } from "../../credits/refill-calendar.js";
import type { Context } from "../context.js";
import { requireKey } from "../rows.js";
import * as schemas from "../schemas/keys.js";
import { parse } from "../schemas/parse.js";
import type { V2KeysUpdateCreditsRequestBody } from "../schemas/requests.js";
import type { KeyCredits } from "../schemas/responses.js";
import { readCredits } from "./key-response.js";
import { changeBalance, writeKey } from "./update-key.js";

/**
 * `set` with null makes a key unlimited and clears its refill. Returns the balance after the change, which may include
 * concurrent spends.
 * @throws KeystileError BAD_REQUEST, also for `increment` and `decrement` on an unlimited key · NOT_FOUND
 */
export async function updateCredits(context: Context, body: V2KeysUpdateCreditsRequestBody): Promise<KeyCredits> {
  const { keyId, value = null, operation } = parse(schemas.updateCredits, body);
  const now = context.clock();
  await writeKey(context, keyId, now, (row) => {
    if (value === null || operation === "set") return changeBalance(context, row, { remaining: value }, now);
    if (!row.hasCredits) throw badRequest([UNLIMITED]);
    return { period: periodOf(row.refill, now), now, add: operation === "increment" ? value : -value };
  });
  const [credits] = await readCredits(context, [await requireKey(context, keyId)], now);
  return credits as KeyCredits;
}

const UNLIMITED = {
  location: "body.operation",
  message: "does not fit a key with unlimited credits",
  fix: 'give the key a balance first, with "set"',
};
