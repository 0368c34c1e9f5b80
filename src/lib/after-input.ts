/**
 * Node's `setImmediate`, which runs a function once pending input was read; undefined where the host has none. Looked up
 * at run time for that reason.
 */
export function afterInput(): ((act: () => void) => unknown) | undefined {
  const immediate: unknown = Reflect.get(globalThis, "setImmediate");
  return typeof immediate === "function" ? (immediate as (act: () => void) => unknown) : undefined;
}
