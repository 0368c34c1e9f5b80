/**
 * Detection of duplicate property names in JSON: parsers keep the last one silently, so two readers could see different
 * values.
 */

/** A bracket, or a string with the colon after it if it is a property name. Other JSON tokens contain neither. */
const PARTS = /"(?:[^"\\]|\\.)*"(\s*:)?|[{}[\]]/g;

/**
 * Whether any object in `json` has two properties of the same name, after unescaping.
 * @param json valid JSON of at most a few kilobytes
 * @remarks O(length)
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
