/** Errors of work that several calls waited for. */
import { isKeystileError, KeystileError } from "../contracts/errors.js";

/**
 * A separate error for each failed call, so that no caller sees changes that another made to its error. Other errors
 * than a KeystileError are returned as they are.
 */
export function copyOfError(error: unknown): unknown {
  if (!isKeystileError(error)) return error;
  const { code, detail, errors, cause, outcomeUnknown = false } = error;
  return new KeystileError(code, detail, { errors, outcomeUnknown, ...(cause !== undefined && { cause }) });
}
