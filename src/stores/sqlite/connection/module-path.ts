/** Where this code runs: from here packages are looked for. Knows no package. */
import { isAbsolute } from "node:path";

/**
 * For `createRequire`: the address of the module that this code is in; without one its path; without either the working directory.
 *
 * Why three: a bundle in CommonJS has no `import.meta.url`, and code from `node -e` or standard input has a `__filename` that is no path.
 */
export function modulePath(): string {
  const address = import.meta.url as string | undefined;
  if (address !== undefined) return address;
  return typeof __filename === "string" && isAbsolute(__filename) ? __filename : `${process.cwd()}/`;
}
