/** Whether two paths name one file: what a command writes must not be what it reads. */
import { realpathSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/** Whether both paths lead to one file, also through links; or to one place, if nothing is there yet. */
export function isSameFile(one: string, other: string): boolean {
  const [first, second] = [stat(one), stat(other)];
  if (first !== undefined && second !== undefined) return first.dev === second.dev && first.ino === second.ino;
  return first === second && placeOf(one) === placeOf(other);
}

function stat(path: string) {
  try {
    return statSync(path, { bigint: true });
  } catch {
    return undefined;
  }
}

/** The path with the links of its folder resolved. */
function placeOf(path: string): string {
  try {
    return join(realpathSync(dirname(path)), basename(path));
  } catch {
    // There is no such folder: whoever writes fails.
    return path;
  }
}
