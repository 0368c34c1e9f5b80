/** Which pages the site has, where each is, and in what order they are offered. */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { COMMANDS } from "./commands.js";
import { pathOf } from "./operations.js";
import { REFERENCE } from "./reference.js";

/** The repository's top folder. */
export const ROOT = join(import.meta.dirname, "..", "..");

/** Texts at the top of the repository, and of its folders: path by path of the page. */
const TEXTS: Readonly<Record<string, string>> = {
  "README.md": "index.html",
  "SECURITY.md": "security.html",
  "CHANGELOG.md": "changelog.html",
  "CONTRIBUTING.md": "contributing.html",
  "CODE_OF_CONDUCT.md": "code-of-conduct.html",
  "bench/README.md": "bench/index.html",
  "examples/README.md": "examples/index.html",
  "test/README.md": "test/index.html",
};

/** Markdown by path: what is committed. */
export function committedPages(): Map<string, string> {
  const docs = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".md") && !path.startsWith("reference/"))
    .map((path) => `docs/${path}`);
  return new Map([...Object.keys(TEXTS), ...docs.sort()].map((path) => [path, readFileSync(join(ROOT, path), "utf8")]));
}

/** @returns the path on the site of a page, by its path in the repository */
export function placeOf(path: string): string {
  if (path in TEXTS) return TEXTS[path] ?? "";
  const place = path.replace(/^docs\//, "");
  if (place === "README.md") return "docs.html";
  return place.replace(/(^|\/)README\.md$/, "$1index.md").replace(/\.md$/, ".html");
}

/** A link of the navigation. */
export interface Entry {
  readonly label: string;
  /** Path in the repository. */
  readonly path: string;
}

export interface Section {
  readonly title: string;
  readonly entries: readonly Entry[];
  /** Only its title shows, until a reader opens it or is on one of its pages. */
  readonly isFolded?: true;
}

/** @param pages Markdown by path */
export function sectionsOf(pages: ReadonlyMap<string, string>): Section[] {
  const told = toldIn(pages.get("docs/README.md") ?? "", pages);
  const listed = new Set(told.flatMap(({ entries }) => entries.map(({ path }) => path)));
  const recipes = [...pages.keys()].filter((path) => path.startsWith("docs/recipes/") && !listed.has(path));
  const modules = [...pages.keys()].filter((path) => path.startsWith(`${REFERENCE}/`) && !path.endsWith("/README.md"));
  const groups = new Map<string, Entry[]>();
  for (const name of Object.keys(OPERATIONS)) {
    const [group = ""] = name.split(".");
    groups.set(group, [...(groups.get(group) ?? []), { label: name, path: pathOf(name) }]);
  }
  return [
    ...told,
    ...(recipes.length === 0 ? [] : [{ title: "Recipes", entries: recipes.map((path) => entryOf(path, pages)) }]),
    { title: "Reference", entries: [entryOf(COMMANDS, pages)] },
    {
      title: "Entry points",
      entries: [`${REFERENCE}/README.md`, ...modules.sort(byLength)].map((path) => entryOf(path, pages)),
      isFolded: true,
    },
    ...[...groups].map(([group, entries]): Section => ({ title: `${group}.*`, entries, isFolded: true })),
    {
      title: "Project",
      entries: ["CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md", "test/README.md", "CODE_OF_CONDUCT.md"].map(
        (path) => entryOf(path, pages),
      ),
    },
  ];
}

/** The sections that a list of pages has: `**Title**` at the beginning of a line, then links. */
function toldIn(text: string, pages: ReadonlyMap<string, string>): Section[] {
  return text
    .split(/^\*\*(.*?)\*\*.*$/m)
    .slice(1)
    .flatMap((title, i, parts) => {
      if (i % 2 === 1) return [];
      const entries = [...(parts[i + 1] ?? "").matchAll(/\[([^\]]*)\]\(([^)]*\.md)\)/g)].map(
        ([, label = "", link = ""]) => {
          const path = posix.join("docs", link);
          // "its operations" reads well in a sentence only.
          return /^[a-z]/.test(label) ? entryOf(path, pages) : { label, path };
        },
      );
      return { title, entries };
    });
}

const entryOf = (path: string, pages: ReadonlyMap<string, string>): Entry => ({
  label: titleOf(pages.get(path) ?? "", path),
  path,
});

/** The first heading. */
export function titleOf(markdown: string, path: string): string {
  const [, title] = /^# (.*)$/m.exec(markdown) ?? [];
  if (title === undefined) throw new Error(`${path} has no title`);
  return title.replaceAll(/[`\\]/g, "");
}

const byLength = (a: string, b: string): number => a.split("/").length - b.split("/").length || (a < b ? -1 : 1);
