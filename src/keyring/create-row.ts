/** Inserts a row whose name must be unique in its workspace: 409 otherwise. Spec §7. */
import { KeystileError } from "../contracts/errors.js";
import type { Write } from "../contracts/store.js";
import type { Context } from "./context.js";

/**
 * @param what the row in words, for the message
 * @throws KeystileError CONFLICT: its name is taken
 */
export async function insertNamed(context: Context, write: Write, what: string): Promise<void> {
  if (!(await context.store.write([write]))) throw taken(what);
}

/** CONFLICT: the name exists. @param what the row in words, for the message */
export function taken(what: string): KeystileError {
  return new KeystileError("CONFLICT", `${what} exists already`);
}
