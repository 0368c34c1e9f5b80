/** What comments and titles cite, against what docs/contract.md has and test/README.md explains. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./source.js";

/** How each kind is cited: `ruling C2`, `rulings A1, C3 and E2`, `trap 13`, `traps 2, 4`, `contract 4.1-3`. */
const LISTS: readonly [kind: string, cited: RegExp, one: RegExp][] = [
  ["ruling", /\brulings? [A-G]\d(?:(?:, | and |–|, ruling )[A-G]\d)*/gi, /[A-G]\d/g],
  ["trap", /\btraps? \d+(?:(?:, | and |, trap )\d+)*/gi, /\d+/g],
  ["contract", /\bcontract \d(?:\.\d)?(?:-\d)?(?:(?:, | and )\d(?:\.\d)?(?:-\d)?)*/gi, /(?<!-)\d(?:\.\d)?/g],
];

/** Every citation in a text, each once: `ruling C2`, `trap 13`, `contract 4.1`. */
export function citationsIn(text: string): Set<string> {
  const found = new Set<string>();
  for (const [kind, cited, one] of LISTS)
    for (const [list] of text.matchAll(cited)) for (const [name] of list.matchAll(one)) found.add(`${kind} ${name}`);
  return found;
}

/** What the pages explain, in the same form: the first cells of the tables of one, the headings of the contract. */
export function explainedIn(page: string, contract: string): Set<string> {
  const explained = new Set<string>();
  for (const [, cell = ""] of page.matchAll(/^\| ([A-G\d][^|]*?) *\|/gm))
    for (const name of cell.split(", ")) explained.add(`${/^\d/.test(name) ? "trap" : "ruling"} ${name}`);
  for (const [, section = ""] of contract.matchAll(/^#+ (\d(?:\.\d)?)/gm)) explained.add(`contract ${section}`);
  // An item of a section's list counts as its part.
  for (const [, section = "", text = ""] of contract.matchAll(/^## (\d)\.[^\n]*\n([^]*?)(?=^## |(?![^]))/gm))
    for (const [, item = ""] of text.matchAll(/^(\d)\. /gm)) explained.add(`contract ${section}.${item}`);
  return explained;
}

/** The texts of all committed TypeScript, by path. */
export function committedTexts(): ReadonlyMap<string, string> {
  const paths = execFileSync("git", ["ls-files", "src", "test", "bench", "grammar"], { cwd: ROOT, encoding: "utf8" })
    .trim()
    .split("\n");
  return new Map(
    paths.filter((path) => /\.(ts|peggy)$/.test(path)).map((path) => [path, readFileSync(join(ROOT, path), "utf8")]),
  );
}

/**
 * Comments that go beyond column 120, as `path:line`: what the formatter leaves as it is. Directives must be one line.
 */
export function findWideComments(path: string, text: string): string[] {
  return text
    .split("\n")
    .flatMap((line, i) =>
      line.length > 120 && /^\s*(\*|\/\/|\/\*)/.test(line) && !line.includes("oxlint-disable")
        ? [`${path}:${i + 1}`]
        : [],
    );
}
