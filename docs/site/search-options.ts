/** How the index is made, and asked: the same on both sides. */
import type { default as MiniSearch, Options, SearchResult } from "minisearch";

/** What is found: a section of a page. */
export interface Found {
  /** From the top of the site, with the anchor. */
  readonly id: string;
  readonly page: string;
  readonly heading: string;
  readonly text: string;
  /** The first words of the text. */
  readonly start: string;
}

/** `createKey` is found by each of its parts, `RATE_LIMITED` too. */
function wordsOf(text: string): string[] {
  return text.split(/[\n\r\p{Z}\p{P}<>=|`$+]+/u).flatMap((word) => {
    const parts = word.split(/(?<=[a-z\d])(?=[A-Z])/);
    return parts.length > 1 ? [word, ...parts] : parts;
  });
}

export const INDEX_OPTIONS: Options<Found> = {
  fields: ["page", "heading", "text"],
  storeFields: ["page", "heading", "start"],
  tokenize: wordsOf,
  searchOptions: {
    tokenize: (query) => query.split(/[\n\r\p{Z}\p{P}<>=|`$+]+/u).filter((word) => word !== ""),
    boost: { heading: 4, page: 3 },
    prefix: (word) => word.length > 1,
    fuzzy: (word) => (word.length > 4 ? 0.2 : false),
    combineWith: "AND",
    // What was written to be read comes before what was made from types, and both before files of the repository.
    boostDocument: (id: string) => (/^(reference|http|test|source)\//.test(id) ? 0.6 : 1),
  },
};

/** Sections that every word of a query stands in, and after them those that some stand in. */
export function searchIn(index: MiniSearch<Found>, query: string): SearchResult[] {
  const whole = index.search(query);
  const ids = new Set(whole.map(({ id }) => id as string));
  return [...whole, ...index.search(query, { combineWith: "OR" }).filter(({ id }) => !ids.has(id as string))];
}
