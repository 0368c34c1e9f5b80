/** Permission names with wildcards. Contract 2.3. */

const WILDCARD = "*";
const STAR = 42;
const DOT = 46;

/** Up to this many patterns are tried one by one, which costs less than two binary searches. */
const MAX_SCANNED_PATTERNS = 32;

/**
 * Whether one of the patterns covers a name.
 *
 * Why sorted, not a tree of objects: patterns with a common prefix are adjacent, so the sorted list is a tree by
 * segment. Each range splits in two, by the name's next segment and by `*`. Trying 100,000 patterns for each of 199
 * names took half a second, and splitting them into segments beforehand another half and 200 MB.
 * @param patterns sorted by UTF-16 code units; one without a wildcard covers itself
 * @remarks O(log patterns) for each range that matches the name so far; crafted patterns can make it try each one
 */
export function coversAmong(patterns: readonly string[], name: string): boolean {
  return new Search(patterns, name).covers({ from: 0, to: patterns.length, prefix: "" }, 0);
}

/** The patterns that begin with `prefix`, which is empty or ends with a dot. */
interface Range {
  readonly from: number;
  readonly to: number;
  readonly prefix: string;
}

/** The search for one name. */
class Search {
  readonly #patterns: readonly string[];
  readonly #name: string;

  constructor(patterns: readonly string[], name: string) {
    this.#patterns = patterns;
    this.#name = name;
  }

  /** @param position where the name's next segment begins; everything before it matches the range's prefix */
  covers(range: Range, position: number): boolean {
    const name = this.#name;
    const { from, to, prefix } = range;
    if (to - from <= MAX_SCANNED_PATTERNS) {
      for (let i = from; i < to; i++)
        if (this.#matches(this.#patterns[i] as string, prefix.length, position)) return true;
      return false;
    }
    if (this.#holds(range, prefix + WILDCARD)) return true;
    const dot = name.indexOf(".", position);
    if (dot < 0) return this.#holds(range, prefix + name.slice(position));
    const segment = name.slice(position, dot);
    if (this.covers(this.#narrow(range, segment), dot + 1)) return true;
    return segment !== WILDCARD && this.covers(this.#narrow(range, WILDCARD), dot + 1);
  }

  #holds({ from, to }: Range, pattern: string): boolean {
    return this.#patterns[this.#lowerBound(from, to, pattern)] === pattern;
  }

  /** The patterns of a range with this next segment and more after it. */
  #narrow({ from, to, prefix }: Range, segment: string): Range {
    const longer = `${prefix}${segment}.`;
    const first = this.#lowerBound(from, to, longer);
    // `/` is the code unit after `.`.
    return { from: first, to: this.#lowerBound(first, to, `${prefix}${segment}/`), prefix: longer };
  }

  /** The first position in a range whose pattern is not less than `text`. */
  #lowerBound(from: number, to: number, text: string): number {
    let low = from;
    let high = to;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#patterns[middle] as string) < text) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /**
   * Whether the rest of a pattern, from the start of a segment, covers the rest of the name. Scans both once, without
   * splitting.
   */
  #matches(pattern: string, from: number, position: number): boolean {
    const name = this.#name;
    let at = from;
    let here = position;
    for (;;) {
      if (pattern.charCodeAt(at) === STAR) {
        if (at + 1 === pattern.length) return true;
        if (pattern.charCodeAt(at + 1) === DOT) {
          here = name.indexOf(".", here) + 1;
          if (here === 0) return false;
          at += 2;
          continue;
        }
      }
      for (let code = 0; code !== DOT;) {
        if (at === pattern.length) return here === name.length;
        code = pattern.charCodeAt(at++);
        if (code !== name.charCodeAt(here++)) return false;
      }
    }
  }
}
