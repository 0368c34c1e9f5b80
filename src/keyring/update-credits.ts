/**
 * Sets, increments or decrements the balance of an owner, a key or an identity: the operations `keys.updateCredits` and
 * `identities.updateCredits`. Balances stop at 0 and 2^53 − 1.
 */
import { badRequest, type KeystileError, type ValidationProblem } from "../contracts/errors.js";
import type { CreditChange, CreditRow, IdentityRow } from "../contracts/store.js";
import { periodOf } from "../credits/refill-calendar.js";
import { refillOf } from "../lib/credits-source.js";
import type { Mutable } from "../lib/mutable.js";
import { adjustment } from "./adjustment.js";
import { type Context, updateWithRetry } from "./context.js";
import { changeIdentityCredits, identityWrite } from "./identity-credits.js";
import type { CreditPatch } from "./keys/credit-change.js";
import { type ChangedRow, readCredits, toChangedCredits } from "./keys/key-response.js";
import { changeBalance, changeKey } from "./keys/update-key.js";
import { requireKey, requireNamed } from "./rows.js";
import { changedIdentityBalance, changedKeyBalance } from "./schemas/credits.js";
import type { Schema } from "./schemas/parse.js";
import type { BalanceChange, GrantOwner } from "./schemas/requests.js";
import type { KeyCredits } from "./schemas/responses.js";
import { writeRows } from "./write.js";

/**
 * Says what to change of a balance; may run again on a fresh row.
 * @param set sets the fields of the row that follow from a patch, and says what to change
 */
type Edit = (
  row: Partial<CreditRow>,
  set: (patch: CreditPatch) => Promise<CreditChange | undefined>,
) => Promise<CreditChange | undefined>;

/**
 * Reads an owner, lets `edit` change its credits, and writes it.
 * @returns the row, and the balance as a change of it left it
 * @throws KeystileError NOT_FOUND · whatever `edit` throws
 */
export async function changeOwner(
  context: Context,
  { identity, keyId }: GrantOwner,
  edit: Edit,
): Promise<ChangedRow<Partial<CreditRow>>> {
  if (identity === undefined)
    return changeKey(context, keyId, (row) => edit(row, (patch) => changeBalance(context, row, patch)));
  return updateWithRetry(context, identity, async () => {
    const row: Mutable<IdentityRow> = { ...(await requireNamed(context, "identities", identity)) };
    const credits = await edit(row, (patch) => changeIdentityCredits(context, row, patch));
    const balances = await writeRows(context, [identityWrite(row, credits)]);
    return balances && { row, balance: balances[0] };
  });
}

/** The credits of an owner, as things stand. @throws KeystileError NOT_FOUND */
export async function creditsOf(context: Context, { identity, keyId }: GrantOwner): Promise<KeyCredits> {
  const [credits] =
    identity === undefined
      ? await readCredits(context, "keys", [await requireKey(context, keyId)])
      : await readCredits(context, "identities", [await requireNamed(context, "identities", identity)]);
  return credits as KeyCredits;
}

/** The error that an owner has no credits of its own. */
export function unlimited({ keyId }: GrantOwner, fix: string): KeystileError {
  const [location, what] = keyId === undefined ? ["body.identity", "an identity"] : ["body.keyId", "a key"];
  return badRequest([{ location, message: `must be ${what} with credits of its own`, fix }]);
}

/** Returns the balance as the change left it. @param without what is wrong where there is none to change */
function balanceChange<B extends GrantOwner & BalanceChange>(
  name: string,
  schema: Schema<B>,
  without: Omit<ValidationProblem, "location">,
) {
  const act = async (context: Context, request: B) => {
    const { value = null, operation }: BalanceChange = request;
    const { now } = context;
    const changed = await changeOwner(context, request, async (row, set) => {
      if (value === null || operation === "set") return set({ remaining: value });
      if (row.hasCredits !== true) throw badRequest([{ location: "body.operation", ...without }]);
      return { period: periodOf(refillOf(row), now), now, add: operation === "increment" ? value : -value };
    });
    return toChangedCredits(changed);
  };
  return adjustment(name, schema, act, creditsOf);
}

/**
 * `set` with null makes a key unlimited, whatever its identity has, and clears its refill.
 * @throws KeystileError BAD_REQUEST, also for `increment` and `decrement` on an unlimited key · NOT_FOUND
 */
export const updateCredits = balanceChange("updateCredits", changedKeyBalance, {
  message: "does not fit a key without a balance of its own",
  fix: 'give the key a balance first, with "set", or change the credits of its identity',
});

/**
 * The balance that keys of an identity share.
 * @throws KeystileError BAD_REQUEST, also for `increment` and `decrement` without credits · NOT_FOUND
 */
export const updateIdentityCredits = balanceChange("updateIdentityCredits", changedIdentityBalance, {
  message: "does not fit an identity without credits",
  fix: 'give it credits first, with "set"',
});
