/** Finds the program of the threads that this package starts: `keystile/sqlite-writer`. */
import { createRequire } from "node:module";
import { KeystileError } from "../../../contracts/errors.js";
import { modulePath } from "../connection/module-path.js";

/**
 * The given program, else the package's own, resolved by the package's name, which also works from a bundle.
 * @throws KeystileError STORE_FAILED: it is not found
 */
export function programOf(given: unknown): URL | string {
  if (given instanceof URL) return given;
  try {
    return createRequire(modulePath()).resolve("keystile/sqlite-writer");
  } catch (cause) {
    throw new KeystileError(
      "STORE_FAILED",
      "keystile/sqlite-writer is not found from here; give its place as options.writer",
      { cause },
    );
  }
}
