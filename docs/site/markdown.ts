/** Markdown to HTML: anchors as GitHub makes them, code in colours, links by a function of the caller. */
import { Marked, Renderer, type Tokens } from "marked";
import { drawDiagram } from "./diagram.js";
import { escapeHtml, textOf } from "./html.js";

export interface Heading {
  readonly level: number;
  readonly id: string;
  /** HTML. */
  readonly text: string;
}

export interface Rendered {
  readonly html: string;
  readonly headings: readonly Heading[];
}

/** What the text of a page refers to. */
export interface References {
  /** Where a link or an image leads, from the page. */
  resolve(link: string): string;
  /** Where the page should link a piece of code to, such as the name of an export. */
  define?(code: string): string | undefined;
  /** The anchor that a piece of code should be. */
  anchor?(code: string): string | undefined;
}

/** Characters of a cell that a narrow column would make a tower of. */
const LONG_CELL = 40;

export function render(markdown: string, { resolve, define, anchor }: References): Rendered {
  const headings: Heading[] = [];
  const anchors = new Set<string>();
  let isLinked = false;
  /** Links in links are no HTML. */
  const linked = (inner: () => string): string => {
    const before = isLinked;
    isLinked = true;
    const html = inner();
    isLinked = before;
    return html;
  };
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const text = linked(() => this.parser.parseInline(tokens));
        const id = anchorFor(textOf(text), anchors);
        headings.push({ level: depth, id, text: text.replaceAll(/<\/?a\b[^>]*>/g, "") });
        return `<h${depth} id="${id}">${text} <a class="anchor" href="#${id}" aria-label="Link to this section">#</a></h${depth}>\n`;
      },
      code({ text, lang = "" }) {
        const [language = ""] = lang.split(" ");
        if (language === "mermaid") return drawDiagram(text);
        return `<pre tabindex="0"><code>${highlight(text, language)}</code></pre>\n`;
      },
      codespan({ text }) {
        const id = anchor?.(text);
        if (id !== undefined) return `<code id="${id}">${escapeHtml(text)}</code>`;
        const code = `<code>${escapeHtml(text)}</code>`;
        const target = isLinked ? undefined : define?.(text);
        return target === undefined ? code : `<a class="name" href="${escapeHtml(target)}">${code}</a>`;
      },
      link({ href, tokens }) {
        const text = linked(() => this.parser.parseInline(tokens));
        return `<a href="${escapeHtml(resolve(href))}">${text}</a>`;
      },
      image({ href, text }) {
        return `<img src="${escapeHtml(resolve(href))}" alt="${escapeHtml(text)}">`;
      },
      html({ text }) {
        return text.replaceAll(
          /\b(src|srcset|href)="([^"]*)"/g,
          (_, name: string, link: string) => `${name}="${resolve(link)}"`,
        );
      },
      tablecell({ tokens, header, text }) {
        const tag = header ? "th" : "td";
        return `<${tag}${text.length > LONG_CELL ? ' class="long"' : ""}>${this.parser.parseInline(tokens)}</${tag}>\n`;
      },
      table(this: Renderer, token: Tokens.Table) {
        return `<div class="table" tabindex="0">${Renderer.prototype.table.call(this, token)}</div>\n`;
      },
    },
  });
  return { html: marked.parse(markdown, { async: false }), headings };
}

/** As GitHub makes it, another than those before. */
function anchorFor(heading: string, taken: Set<string>): string {
  const anchor = heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\- _]/gu, "")
    .replaceAll(" ", "-");
  let free = anchor;
  for (let i = 1; taken.has(free); i++) free = `${anchor}-${i}`;
  taken.add(free);
  return free;
}

/** Rewrites the links of a text that stays Markdown; code stays as it is. */
export function relink(markdown: string, resolve: (link: string) => string): string {
  return markdown
    .split(/(^```[\s\S]*?^```$|`[^`\n]*`)/m)
    .map((part, i) =>
      i % 2 === 1 ? part : part.replaceAll(/\]\(([^()\s]+)\)/g, (_, link: string) => `](${resolve(link)})`),
    )
    .join("");
}

const STRING = String.raw`"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`;
const SCRIPT = new RegExp(
  [
    String.raw`(?<comment>\/\/[^\n]*|\/\*[\s\S]*?\*\/)`,
    "(?<string>" + STRING + String.raw`|\`(?:\\.|[^\`\\])*\`)`,
    String.raw`\b(?<keyword>import|from|export|const|let|new|await|async|function|return|if|else|for|of|in|try|catch|throw|switch|case|default|class|extends|type|interface|readonly|declare|module|as|typeof|null|undefined|true|false)\b`,
    String.raw`\b(?<number>\d[\d_.]*)\b`,
  ].join("|"),
  "g",
);
/** What stands out in each language. */
const LANGUAGES: Readonly<Record<string, RegExp>> = {
  ts: SCRIPT,
  js: SCRIPT,
  json: SCRIPT,
  ndjson: SCRIPT,
  sh: new RegExp(
    String.raw`(?<comment>(?<=^|\s)#[^\n]*)|(?<string>"(?:\\.|[^"\\])*"|'[^']*')|(?<=\s)(?<keyword>--?[a-zA-Z][\w-]*)`,
    "gm",
  ),
  sql: new RegExp(
    String.raw`(?<comment>--[^\n]*)|(?<string>'[^']*')|\b(?<keyword>SELECT|FROM|WHERE|AND|OR|NOT|NULL|IS|ORDER|GROUP|BY|LIMIT|AS|ON|JOIN|LEFT|INSERT|INTO|UPDATE|SET|DELETE|GRANT|CREATE|ROLE|TO|IN|SCHEMA|USAGE|ALL|DESC|COUNT|SUM)\b|\b(?<number>\d+)\b`,
    "g",
  ),
};

/** Escaped, with spans of the classes `comment`, `string`, `keyword` and `number`. */
function highlight(code: string, language: string): string {
  const pattern = LANGUAGES[language];
  if (pattern === undefined) return escapeHtml(code);
  let html = "";
  let end = 0;
  for (const { 0: text, index, groups = {} } of code.matchAll(pattern)) {
    const [kind] = Object.entries(groups).find(([, value]) => value !== undefined) ?? [""];
    html += `${escapeHtml(code.slice(end, index))}<span class="${kind}">${escapeHtml(text)}</span>`;
    end = index + text.length;
  }
  return html + escapeHtml(code.slice(end));
}
