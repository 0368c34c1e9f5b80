/** The path of this module, from which packages are resolved. */
import { isAbsolute } from "node:path";

/**
 * For `createRequire`: the URL of this module, else its path, else the working directory.
 *
 * Why three: a CommonJS bundle has no `import.meta.url`, and in code from `node -e` or standard input `__filename` is
 * not a path.
 */
export function modulePath(): string {
  const url = import.meta.url as string | undefined;
  if (url !== undefined) return url;
  return typeof __filename === "string" && isAbsolute(__filename) ? __filename : `${process.cwd()}/`;
}
