/** What keystile takes of the runtime, asked when something is made. */

/**
 * An earlier Node would fail later, in the middle of a call, with the name of a method that it lacks.
 * @throws TypeError that says which Node keystile takes
 */
export function assertRuntime(): void {
  if (typeof "".isWellFormed !== "function")
    throw new TypeError("keystile takes Node 20.12 or later, or a runtime with String.prototype.isWellFormed");
}
