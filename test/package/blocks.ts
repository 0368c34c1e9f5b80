/** Blocks of the documentation, found by their headings: where one is renamed or goes, this says so. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { buildSync } from "esbuild";

/** A page of the documentation, a heading on it and the word behind the language of a block below that heading. */
export interface Place {
  readonly page: string;
  readonly heading: string;
  readonly block: string;
}

/** How the README says that it is installed. */
export const INSTALL: Place = { page: "README.md", heading: "A guarded route", block: "sh" };
/** The first whole program of the README. */
export const FIRST: Place = { page: "README.md", heading: "Without a framework", block: "ts run" };

/** The first block of a kind below a heading. @throws Error that says what is missing */
export function blockAt({ page, heading, block }: Place): string {
  const lines = readFileSync(join(process.cwd(), page), "utf8").split("\n");
  const from = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, "") === heading);
  if (from < 0) throw new Error(`${page} has no heading "${heading}" any more: tell this script what took its place`);
  const until = lines.findIndex((line, i) => i > from && /^#{1,2} /.test(line));
  const section = lines.slice(from, until < 0 ? undefined : until);
  const begin = section.indexOf("```" + block);
  const end = section.indexOf("```", begin + 1);
  if (begin < 0 || end < 0) throw new Error(`${page}, "${heading}": no block of ${block}`);
  return section.slice(begin + 1, end).join("\n");
}

/** A block of TypeScript as a program: types are taken off, nothing else changes. */
export function toJavaScript(program: string): string {
  const { outputFiles } = buildSync({
    stdin: { contents: program, loader: "ts" },
    write: false,
    format: "esm",
    target: "node20",
    supported: { "top-level-await": true },
  });
  return outputFiles[0]!.text;
}
