/** A page for each entry point of the package, made by TypeDoc from the types and their docstrings. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
    return new Map(paths.map((path) => [`${REFERENCE}/${path}`, tidy(readFileSync(join(folder, path), "utf8"), path)]));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A union of strings that nobody reads, as wide as the screen: every code of an error. */
const ALL_CODES = /(?:`"[A-Z_]+"` \\\| ){20,}`"[A-Z_]+"`/g;

function tidy(markdown: string, path: string): string {
  if (path === "README.md") return markdown.replace(/^# .*\n+## .*/, "# Entry points");
  const up = "../".repeat(path.split("/").length);
  const named = new Set([...markdown.matchAll(/<a id="([^"]*)">/g)].map(([, id]) => id));
  const counts = new Map<string, number>();
  for (const [, heading = ""] of markdown.matchAll(/^#+ (.*)$/gm)) {
    const anchor = heading.replaceAll(/\W/g, "").toLowerCase();
    counts.set(anchor, (counts.get(anchor) ?? 0) + 1);
  }
  // TypeDoc counts headings that are not on the page, such as `query` of `Analytics` as a second `AnalyticsQuery`. What it
  // means by a number that is too high is the last one: functions come before types of the same name.
  return markdown
    .replaceAll(ALL_CODES, `[\`KeystileErrorCode\`](${up}errors.md)`)
    .replaceAll(/\]\(#(\w+)-(\d+)\)/g, (link, anchor: string, number: string) => {
      const last = (counts.get(anchor) ?? 0) - 1;
      if (last < 0 || last >= Number(number) || named.has(`${anchor}-${number}`)) return link;
      return last === 0 ? `](#${anchor})` : `](#${anchor}-${last})`;
    });
}
