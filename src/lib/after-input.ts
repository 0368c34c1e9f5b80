/**
 * Node's `setImmediate`, which runs a function once pending input was read.
 * @returns undefined where the host has none: it is looked up at run time
 */
export function afterInput(): ((act: () => void) => unknown) | undefined {
  const immediate: unknown = Reflect.get(globalThis, "setImmediate");
  return typeof immediate === "function" ? (immediate as (act: () => void) => unknown) : undefined;
}
