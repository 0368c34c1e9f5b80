/** Whether JSON names a property twice: parsers keep the last and say nothing. Hostile inputs A099. Knows JSON, nothing of tokens. */

/** A string, with the colon after it if it is a name, or a bracket. Anything else holds neither. */
const PARTS = /"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\]]/g;

/**
 * Whether an object somewhere in `json` has two properties of one name, escapes undone.
 * @param json valid JSON, at most some kilobytes: the caller has parsed it
 * @see O(length)
 */
export function hasRepeatedName(json: string): boolean {
  const open: Set<string>[] = [];
  for (const [part, colon] of json.matchAll(PARTS)) {
    if (part === "{" || part === "[") open.push(new Set());
    else if (part === "}" || part === "]") open.pop();
    else if (colon !== undefined) {
      const name = JSON.parse(part.slice(0, -colon.length)) as string;
      const names = open.at(-1);
      if (names?.has(name) === true) return true;
      names?.add(name);
    }
  }
  return false;
}
