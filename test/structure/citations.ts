/** What comments and titles cite, against what test/README.md explains. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./source.js";

/** How each kind is cited: `ruling C2`, `rulings A1, C3 and E2`, `trap 13`, `traps 2, 4`, `spec §4.1-3`. */
const LISTS: readonly [kind: string, cited: RegExp, one: RegExp][] = [
  ["ruling", /\brulings? [A-G]\d(?:(?:, | and |–|, ruling )[A-G]\d)*/gi, /[A-G]\d/g],
  ["trap", /\btraps? \d+(?:(?:, | and |, trap )\d+)*/gi, /\d+/g],
  ["spec", /\bspec §\d(?:\.\d)?/gi, /\d(?:\.\d)?/g],
];

/** Every citation in a text, each once: `ruling C2`, `trap 13`, `spec 4.1`. */
export function citationsIn(text: string): Set<string> {
  const found = new Set<string>();
  for (const [kind, cited, one] of LISTS)
    for (const [list] of text.matchAll(cited)) for (const [name] of list.matchAll(one)) found.add(`${kind} ${name}`);
  return found;
}

/** What the page explains, in the same form: the first cells of its tables. */
export function explainedIn(page: string): Set<string> {
  const explained = new Set<string>();
  for (const [, cell = ""] of page.matchAll(/^\| ([A-G§\d][^|]*?) *\|/gm)) {
    for (const name of cell.split(", ")) {
      if (name.startsWith("§")) explained.add(`spec ${name.slice(1)}`);
      else explained.add(`${/^\d/.test(name) ? "trap" : "ruling"} ${name}`);
    }
  }
  // A section stands for itself where its parts have lines.
  for (const name of [...explained]) explained.add(name.replace(/^(spec \d)\.\d$/, "$1"));
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
      line.length > 120 && /^\s*(\*|\/\/|\/\*)/.test(line) && !line.includes("eslint-disable")
        ? [`${path}:${i + 1}`]
        : [],
    );
}
