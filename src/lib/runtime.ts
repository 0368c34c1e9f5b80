/** What keystile takes of the runtime, asked when something is made. */

export const EARLIEST_NODE = "20.12";

/** @param version as in `process.versions.node` */
export function isEarlierNode(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major < 20 || (major === 20 && minor < 12);
}

/**
 * An earlier Node would fail later, in the middle of a call, with the name of a method that it lacks.
 * @throws TypeError that says which Node keystile takes
 */
export function assertRuntime(): void {
  if (typeof "".isWellFormed !== "function")
    throw new TypeError(
      `keystile takes Node ${EARLIEST_NODE} or later, or a runtime with String.prototype.isWellFormed`,
    );
}
