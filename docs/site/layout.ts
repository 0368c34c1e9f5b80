/** What every page has around its text. */
import { posix } from "node:path";
import { escapeHtml, textOf } from "./html.js";
import type { Heading } from "./markdown.js";
import { type Entry, placeOf, type Section } from "./pages.js";

export interface Shown {
  /** On the site. */
  readonly place: string;
  /** In the repository. */
  readonly path: string;
  readonly title: string;
  readonly html: string;
  readonly headings: readonly Heading[];
  /** Whether its Markdown lies beside it. */
  readonly hasMarkdown: boolean;
}

export interface Frame {
  readonly sections: readonly Section[];
  readonly version: string;
  /** Of the repository. */
  readonly address: string;
}

/** Nothing is loaded from elsewhere, whatever a page says. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'";

export function layOut({ place, path, title, html, headings, hasMarkdown }: Shown, frame: Frame): string {
  const to = (target: string): string => posix.relative(posix.dirname(place), target);
  const all = frame.sections.flatMap(({ entries }) => entries);
  const at = all.findIndex((entry) => entry.path === path);
  const [before, after] = at < 0 ? [] : [all[at - 1], all[at + 1]];
  const link = (entry: Entry, attributes = ""): string =>
    `<a href="${to(placeOf(entry.path))}"${attributes}>${escapeHtml(entry.label)}</a>`;
  const item = (entry: Entry): string => `<li>${link(entry, entry.path === path ? ' aria-current="page"' : "")}</li>`;
  const section = ({ title: name, entries, isFolded }: Section): string => {
    const list = `<ul>${entries.map(item).join("")}</ul>`;
    if (isFolded !== true) return `<h2>${escapeHtml(name)}</h2>${list}`;
    const open = entries.some((entry) => entry.path === path) ? " open" : "";
    return `<details${open}><summary>${escapeHtml(name)}</summary>${list}</details>`;
  };
  const inPage = headings.filter(({ level }) => level === 2 || level === 3);
  const contents = inPage.map(({ level, id, text }) => `<li class="level${level}"><a href="#${id}">${text}</a></li>`);
  const onThisPage = (tag: string): string =>
    contents.length < 2 ? "" : `<${tag}>On this page</${tag}><ul>${contents.join("")}</ul>`;
  const described = textOf(/<p>(.*?)<\/p>/s.exec(html)?.[1] ?? title).slice(0, 160);
  const isHome = place === "index.html";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="content-security-policy" content="${POLICY}">
<meta name="color-scheme" content="light dark">
<title>${isHome ? "keystile: verify API keys in your own process" : `${escapeHtml(title)} · keystile`}</title>
<meta name="description" content="${escapeHtml(described)}">
<link rel="icon" href="${to("icon.svg")}">
<link rel="stylesheet" href="${to("style.css")}">
<script src="${to("theme.js")}"></script>
<script defer src="${to("site.js")}" data-root="${to(".") || "."}"></script>
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header>
<a class="brand" href="${to("index.html")}">keystile</a> <small>${escapeHtml(frame.version)}</small>
<div class="search" role="search" hidden>
<input type="search" placeholder="Search  /" aria-label="Search the documentation" role="combobox" aria-expanded="false" aria-controls="found" aria-autocomplete="list" autocomplete="off" spellcheck="false">
<ul id="found" role="listbox" aria-label="Found" hidden></ul>
</div>
<a href="${to("docs.html")}">Docs</a>
<a class="wide" href="${to("playground.html")}">Playground</a>
<a class="wide" href="${escapeHtml(frame.address)}">Repository</a>
<button class="theme" type="button" hidden>Dark</button>
</header>
<div class="columns">
<nav class="pages" aria-label="Pages"><details class="menu" open><summary>Pages</summary>${frame.sections.map(section).join("\n")}</details></nav>
<main id="text">
${inPage.length < 2 ? "" : `<details class="short">${onThisPage("summary")}</details>`}
<article>
${html}
</article>
<footer>
<p>${before === undefined ? "" : `<span>← ${link(before, ' rel="prev"')}</span>`}${after === undefined ? "" : `<span>${link(after, ' rel="next"')} →</span>`}</p>
<p><small>keystile ${escapeHtml(frame.version)}, MIT. ${hasMarkdown ? `<a href="${to(place.replace(/\.html$/, ".md"))}">This page as Markdown</a>` : ""}</small></p>
</footer>
</main>
<aside aria-label="On this page">${onThisPage("h2")}</aside>
</div>
</body>
</html>
`;
}
