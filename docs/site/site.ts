/** The site: the pages of the repository, one for each entry point, operation and command, and an index of all. */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, extname, join, posix } from "node:path";
import { build } from "esbuild";
import { listProblemTypes } from "../../src/contracts/errors.js";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { makePlayground } from "../playground/make.js";
import { COMMANDS, commandsPage, readHelp } from "./commands.js";
import { type Frame, layOut, type Shown } from "./layout.js";
import { relink, render, type Rendered } from "./markdown.js";
import { operationPages, pathOf } from "./operations.js";
import { committedPages, placeOf, ROOT, sectionsOf, titleOf } from "./pages.js";
import { REFERENCE, referencePages } from "./reference.js";
import { indexOf } from "./search-index.js";
import { libraryOf } from "./twins.js";

const FOLDER = import.meta.dirname;
const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
  readonly version: string;
  readonly repository: { readonly url: string };
};
const ADDRESS = manifest.repository.url.replace(/^git\+/, "").replace(/\.git$/, "");
/** How the README names a picture of this repository, since npm shows it too. */
const RAW = `${ADDRESS.replace("github.com", "raw.githubusercontent.com")}/HEAD/`;
const ERRORS = "docs/errors.md";

type Pages = ReadonlyMap<string, string>;

/** Makes the site in a folder, which is emptied first. */
export async function buildSite(folder: string): Promise<void> {
  const help = await readHelp();
  const pages: Pages = new Map([
    ...(await referencePages()),
    ...committedPages(),
    ...operationPages(help),
    [COMMANDS, commandsPage(help)] as const,
  ]);
  rmSync(folder, { recursive: true, force: true });
  const write = (place: string, text: string): void => {
    mkdirSync(dirname(join(folder, place)), { recursive: true });
    writeFileSync(join(folder, place), text);
  };

  const frame: Frame = { sections: sectionsOf(pages), version: manifest.version, address: ADDRESS };
  const files = new Set<string>();
  const shown = [...renderAll(pages, files), ...sourcePages(files)];
  for (const page of shown) write(page.place, layOut(page, frame));
  for (const [path, markdown] of pages)
    write(
      copyOf(path),
      relink(markdown, (link) => resolve(pages, path, link, copyOf).link),
    );
  for (const file of files) if (!isText(file)) cpSync(join(ROOT, file), join(folder, placeOfFile(file)));

  write("llms.txt", `${read("docs/llms.txt")}\n${listOf(pages)}`);
  write("llms-full.txt", fullText(pages, frame));
  write("playground.html", await makePlayground());
  write("search-index.js", `self.searchIndex = ${indexOf(shown)};\n`);
  for (const name of ["style.css", "theme.js", "icon.svg"]) write(name, readFileSync(join(FOLDER, name), "utf8"));
  const { outputFiles } = await build({
    ...{ entryPoints: [join(FOLDER, "client.js")], bundle: true, minify: true, write: false, target: "es2022" },
  });
  write("site.js", outputFiles.map(({ text }) => text).join(""));
}

const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");
/** Where the Markdown of a page lies. */
const copyOf = (path: string): string => placeOf(path).replace(/\.html$/, ".md");
const isText = (file: string): boolean => !/\.(png|svg)$/.test(file);
/** A text is shown on a page; a picture lies where the pages expect it. */
const placeOfFile = (file: string): string => (isText(file) ? `source/${file}.html` : file.replace(/^docs\//, ""));

/** Where a link of the page at `path` leads, and the file that the site must have for it if that is no page. */
function resolve(
  pages: Pages,
  path: string,
  link: string,
  place: (path: string) => string,
): { readonly link: string; readonly file?: string } {
  const local = link.startsWith(RAW) ? `/${link.slice(RAW.length)}` : link;
  if (/^([a-z]+:|#)/.test(local)) return { link: local };
  const [to = "", anchor] = local.split("#");
  const target = posix.join(to.startsWith("/") ? "" : posix.dirname(path), to).replace(/^\/|\/$/g, "");
  const relative = (there: string): string =>
    posix.relative(posix.dirname(place(path)), there) + (anchor === undefined ? "" : `#${anchor}`);
  const page = [target, `${target}/README.md`].find((one) => pages.has(one));
  if (page !== undefined) return { link: relative(place(page)) };
  if (!existsSync(join(ROOT, target))) throw new Error(`${path} links to ${link}, which is not there`);
  if (statSync(join(ROOT, target)).isDirectory()) return { link: `${ADDRESS}/tree/HEAD/${target}` };
  return { link: relative(placeOfFile(target)), file: target };
}

/** @param files where files that pages link to are noted */
function renderAll(pages: Pages, files: Set<string>): Shown[] {
  const isReference = (path: string): boolean => path.startsWith(`${REFERENCE}/`);
  const show = (path: string, markdown: string, names: ReadonlyMap<string, string>): Shown => {
    const place = placeOf(path);
    const seen = new Set<string>();
    const { html, headings } = render(markdown, {
      resolve(given) {
        const { link, file } = resolve(pages, path, given, placeOf);
        if (file !== undefined) files.add(file);
        return link;
      },
      define(code) {
        const target = names.get(code);
        if (target === undefined || target.replace(/#.*/, "") === place) return undefined;
        return posix.relative(posix.dirname(place), target);
      },
      anchor(code) {
        if (path !== ERRORS || !CODES.has(code) || seen.has(code)) return undefined;
        seen.add(code);
        return code;
      },
    });
    return { place, path, title: titleOf(markdown, path), html, headings, hasMarkdown: true };
  };
  const all = [...pages];
  const reference = all
    .filter(([path]) => isReference(path))
    .map(([path, markdown]) => show(path, markdown, new Map()));
  const names = namesIn(reference);
  const others = all.filter(([path]) => !isReference(path)).map(([path, markdown]) => show(path, markdown, names));
  return [...others, ...reference];
}

const CODES: ReadonlySet<string> = new Set(listProblemTypes().map(({ code }) => code));

/** What a page may name, with its place: exports and their members, entry points, operations, codes of errors. */
function namesIn(reference: readonly Shown[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const { place, title, headings } of reference) {
    names.set(title, place);
    let owner = "";
    for (const { level, id, text } of headings) {
      const name = /^\w+/.exec(text)?.[0] ?? "";
      if (level === 3) owner = name;
      const whole = level === 5 ? `${owner}.${name}` : name;
      if ((level === 3 || level === 5) && !names.has(whole)) names.set(whole, `${place}#${id}`);
    }
  }
  for (const operation of Object.keys(OPERATIONS)) {
    const library = libraryOf(operation) ?? "";
    const method = names.get(library.charAt(0).toUpperCase() + library.slice(1));
    if (method !== undefined) names.set(library, method);
    names.set(operation, placeOf(pathOf(operation)));
  }
  // Also the code of a result, which is meant more often.
  for (const code of CODES) if (code !== "NOT_FOUND") names.set(code, `${placeOf(ERRORS)}#${code}`);
  return names;
}

/** Pages that show a file of the repository. */
function sourcePages(files: ReadonlySet<string>): Shown[] {
  return [...files].filter(isText).map((file) => {
    const markdown = `# ${file}\n\n\`\`\`\`${extname(file).slice(1)}\n${read(file)}\n\`\`\`\`\n`;
    const rendered: Rendered = render(markdown, { resolve: (link) => link });
    return { place: placeOfFile(file), path: file, title: file, hasMarkdown: false, ...rendered };
  });
}

/** What docs/llms.txt does not list: the pages that are made. */
function listOf(pages: Pages): string {
  const made = [...pages.keys()].filter((path) => path === COMMANDS || path.startsWith(`${REFERENCE}/keystile`));
  const lines = made.map((path) => `- [${titleOf(pages.get(path) ?? "", path)}](${copyOf(path)})`);
  const operations = Object.values(OPERATIONS).map(
    ({ name, summary }) => `- [${name}](${copyOf(pathOf(name))}): ${summary}`,
  );
  return `## Reference\n\n${[...lines, "- [Everything above in one file](llms-full.txt)", ...operations].join("\n")}\n`;
}

/** The README and every page of docs/, in their order. */
function fullText(pages: Pages, { sections }: Frame): string {
  const paths = ["README.md", ...sections.flatMap(({ entries }) => entries.map(({ path }) => path))];
  const written = [...new Set(paths)].filter((path) => path !== COMMANDS && !path.startsWith("docs/http/"));
  return written
    .filter((path) => !path.startsWith(`${REFERENCE}/`))
    .map((path) => {
      const place = (one: string): string => (one === path ? "llms-full.txt" : copyOf(one));
      return relink(pages.get(path) ?? "", (link) => resolve(pages, path, link, place).link);
    })
    .join("\n\n---\n\n");
}
