/** Writes rows, and makes a name that is taken a 409. Spec §7. */
import { KeystileError } from "../contracts/errors.js";
import type { Write } from "../contracts/store.js";
import { type Context, updateWithRetry } from "./context.js";

/** A row to insert: its version is 0. */
type NewRow = Extract<Write, { readonly row: unknown }>;

/**
 * @param what the row in words, for the message
 * @throws KeystileError CONFLICT: its name is taken
 */
export async function insertNamed(context: Context, write: NewRow, what: string): Promise<void> {
  await updateWithRetry(context, write.row.id, async () =>
    (await writeRows(context, [write], what)) ? write : undefined,
  );
}

/**
 * Writes rows that were read for it. False: another writer came between, so read them again (store clause 13).
 * @param what whose name may be taken, in words, for the message
 * @throws KeystileError CONFLICT: a name is taken; reading again would not help
 */
export async function writeRows(context: Context, writes: readonly Write[], what = NAME): Promise<boolean> {
  const outcome = await context.store.write(writes);
  if (outcome === "taken") throw taken(what);
  return outcome === "written";
}

const NAME = "Another with this name or digest";

/** CONFLICT: the name exists. @param what the row in words, for the message */
export function taken(what: string): KeystileError {
  return new KeystileError("CONFLICT", `${what} exists already`);
}
