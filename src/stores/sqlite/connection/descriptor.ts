/** File descriptors that are closed however their use ends. */
import { closeSync, openSync } from "node:fs";

/**
 * Opens a file, which only its owner may use where this makes it.
 * @param flags as those of `openSync`
 */
export function withDescriptor<T>(path: string, flags: string, use: (descriptor: number) => T): T {
  const descriptor = openSync(path, flags, 0o600);
  try {
    return use(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Makes an empty file that only its owner may use, or with "a" leaves the one that is there. */
export function makeFile(path: string, flags: "wx" | "a" = "wx"): void {
  withDescriptor(path, flags, () => undefined);
}
