/** Secrets of a file, made with its tables. */
import { KeystileError } from "../../../contracts/errors.js";
import { type Handle, select } from "./handle.js";

/** @returns hexadecimal @throws KeystileError STORE_INVALID: the file lacks it */
export function readSecret(handle: Handle, name: string): string {
  const found = select<{ secret: string }>(
    handle,
    "SELECT lower(hex(secret)) AS secret FROM keystile_secrets WHERE name = ?",
  ).get(name);
  if (found === undefined)
    throw new KeystileError("STORE_INVALID", "the file lacks a secret that it was made with; restore a backup");
  return found.secret;
}
