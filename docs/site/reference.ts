/** A page for each entry point of the package, made by TypeDoc from the types and their docstrings. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { Application } from "typedoc";

/** Where the pages are, as a folder of the repository that is not committed. */
export const REFERENCE = "docs/reference";

/** Markdown by path. */
export async function referencePages(): Promise<ReadonlyMap<string, string>> {
  const folder = mkdtempSync(join(tmpdir(), "keystile-reference-"));
  try {
    const app = await Application.bootstrapWithPlugins({ out: folder, logLevel: "Error" });
    const project = await app.convert();
    if (project === undefined) throw new Error("TypeDoc could not read the types");
    await app.generateOutputs(project);
    if (app.logger.hasErrors()) throw new Error("TypeDoc failed, see above");
    const paths = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".md"));
    const texts = new Map(paths.map((path) => [path, readFileSync(join(folder, path), "utf8")]));
    const anchors = new Map([...texts].map(([path, text]) => [path, anchorsOf(text)]));
    return new Map([...texts].map(([path, text]) => [`${REFERENCE}/${path}`, tidy(text, path, anchors)]));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A union of strings that nobody reads, as wide as the screen: every code of an error. */
const ALL_CODES = /(?:`"[A-Z_]+"` \\\| ){20,}`"[A-Z_]+"`/g;

/** What can be linked to on a page. */
interface Anchors {
  readonly named: ReadonlySet<string>;
  /** How many headings there are by the anchor of the first. */
  readonly headings: ReadonlyMap<string, number>;
}

function anchorsOf(markdown: string): Anchors {
  const named = new Set([...markdown.matchAll(/<a id="([^"]*)">/g)].map(([, id = ""]) => id));
  const headings = new Map<string, number>();
  for (const [, heading = ""] of markdown.matchAll(/^#+ (.*)$/gm)) {
    const anchor = heading.replaceAll(/\W/g, "").toLowerCase();
    headings.set(anchor, (headings.get(anchor) ?? 0) + 1);
  }
  return { named, headings };
}

function tidy(markdown: string, path: string, anchors: ReadonlyMap<string, Anchors>): string {
  if (path === "README.md") return markdown.replace(/^# .*\n+## .*/, "# Entry points");
  const up = "../".repeat(path.split("/").length);
  // TypeDoc counts headings that are not on the page, such as `query` of `Analytics` as a second `AnalyticsQuery`. By a
  // number that is too high it means the last one: functions come before types of the same name.
  const toLast = (link: string, to: string, anchor: string, number: string): string => {
    const there = anchors.get(to === "" ? path : posix.join(posix.dirname(path), to));
    const last = (there?.headings.get(anchor) ?? 0) - 1;
    if (last < 0 || last >= Number(number) || there?.named.has(`${anchor}-${number}`) === true) return link;
    return last === 0 ? `](${to}#${anchor})` : `](${to}#${anchor}-${last})`;
  };
  return markdown
    .replaceAll(ALL_CODES, `[\`KeystileErrorCode\`](${up}errors.md)`)
    .replaceAll(/\]\(([\w./-]*)#(\w+)-(\d+)\)/g, toLast);
}
