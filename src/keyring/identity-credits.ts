/** Credits of an identity, which its keys share: they are changed, and end, here. */
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import type { CreditChange, IdentityRow, Write } from "../contracts/store.js";
import type { Mutable } from "../lib/mutable.js";
import type { Context } from "./context.js";
import type { CreditPatch } from "./keys/credit-change.js";
import { keysThatDrawOn, pagesOfKeys } from "./keys/keys-of-identity.js";
import { changeBalanceOf, writeKey } from "./keys/update-key.js";

/** The row, which may be new, and the change of its balance. */
export function identityWrite(
  row: IdentityRow,
  credits: CreditChange | undefined,
): Extract<Write, { readonly row: unknown }> {
  return credits === undefined ? { table: "identities", row } : { table: "identities", row, credits };
}

/** Sets the fields of the row, which may be new, and says what to change of its balance. */
export async function changeIdentityCredits(
  context: Context,
  row: Mutable<IdentityRow>,
  patch: CreditPatch,
): Promise<CreditChange | undefined> {
  const complete = Object.assign(row, { hasCredits: row.hasCredits ?? false, generation: row.generation ?? 0 });
  return changeBalanceOf(context, complete, { identityId: row.id }, patch);
}

/** @throws KeystileError CONFLICT that counts the keys that draw on its credits */
export async function requireUndrawn(context: Context, row: IdentityRow): Promise<void> {
  let drawing = 0;
  for await (const _ of keysThatDrawOn(context, row)) drawing++;
  if (drawing === 0) return;
  const ways = 'take its credits away, or send keys: "disable", which disables all its keys';
  const message = `keys draw on the credits of the identity: ${drawing}; ${ways}`;
  throw new KeystileError("CONFLICT", message);
}

/** Disables all its keys, those with credits of their own too. @returns how many were enabled */
export async function disableKeys(context: Context, { id: identityId }: IdentityRow): Promise<number> {
  let disabled = 0;
  for await (const rows of pagesOfKeys(context, { identityId })) {
    for (const { id, enabled } of rows) {
      if (!enabled) continue;
      try {
        await writeKey(context, id, (key) => {
          if (key.identityId === identityId) key.enabled = false;
          return undefined;
        });
        disabled++;
      } catch (error) {
        // Deleted meanwhile, or of a deleted API.
        if (!isKeystileError(error) || error.code !== "NOT_FOUND") throw error;
      }
    }
  }
  return disabled;
}
