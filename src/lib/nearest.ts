/** The known name that a misspelt one was meant to be, for messages. */

/** Characters of a longer text are no misspelt name, and would take long to compare. */
const MAX_LENGTH = 255;

/**
 * The name that the fewest edits make of a text (characters that are added, removed or replaced), letter case and `_`
 * left aside.
 * @returns `undefined`: more than a third of its characters would be others
 */
export function nearest(text: string, names: Iterable<string>): string | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  let best: string | undefined;
  let least = Math.floor(text.length / 3) + 1;
  for (const name of names) {
    const edits = editsBetween(plain(text), plain(name));
    if (edits < least) [best, least] = [name, edits];
  }
  return best;
}

const plain = (text: string): string => text.toLowerCase().replaceAll("_", "");

/** The Levenshtein distance, row by row. */
function editsBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 1; i <= from.length; i++) {
    const above = row;
    row = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = (above[j - 1] as number) + (from[i - 1] === to[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (above[j] as number) + 1, (row[j - 1] as number) + 1));
    }
  }
  return row[to.length] as number;
}
