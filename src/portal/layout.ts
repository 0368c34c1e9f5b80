/** The frame of every page of a portal, in the program's looks. */
import { shortDigest } from "../lib/hash.js";
import { COPY_SCRIPT } from "../view/copy.js";
import { CLICK_SCRIPT } from "../view/form.js";
import { html, type Html, literal, type Part, toText } from "../view/html.js";
import type { PageFile } from "../view/outgoing.js";
import { link } from "../view/parts.js";
import type { PortalOptions } from "./options.js";
import type { Language, TextName } from "./texts.js";
import { toStyle } from "./theme.js";
import { type Content, NOTICES, type PortalView } from "./view.js";

/** The menu; all but the first need counts. */
const MENU = [
  ["/", "keys"],
  ["/usage", "usage"],
  ["/statement", "statement"],
] as const;

export function createFrame(
  { theme = {}, home, analytics }: Pick<PortalOptions, "theme" | "home" | "analytics">,
  language: Language,
  path: (to: string) => string,
) {
  const { say, lang } = language;
  const files: Readonly<Record<string, PageFile>> = {
    "/portal.css": { type: "text/css; charset=utf-8", text: toStyle(theme) },
    "/portal.js": { type: "text/javascript; charset=utf-8", text: `"use strict";\n${CLICK_SCRIPT}${COPY_SCRIPT}` },
  };
  const address = (file: string): string => `${path(file)}?v=${shortDigest(files[file]?.text ?? "")}`;
  const [style, script] = [address("/portal.css"), address("/portal.js")];
  const name = theme.name === undefined ? undefined : literal(theme.name);
  const picture =
    theme.logo !== undefined && html`<img src="${theme.logo}" alt="${name === undefined && say("portal")}">`;
  const shown = html`${picture}${name ?? (picture === false && home !== undefined && say("portal"))}`;
  const isBranded = name !== undefined || picture !== false || home !== undefined;
  const brand = isBranded && html`<a class="ks-brand" href="${home ?? path("/")}">${shown}</a>`;
  const scheme = theme.scheme ?? "light dark";
  const document = (title: Html, menu: Part, main: Html): string =>
    toText(html`<!doctype html><html lang="${lang}"><head><meta charset="utf-8">
      <title>${title}${name !== undefined && html` · ${name}`}</title>
      <meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="${scheme}">
      <link rel="stylesheet" href="${style}"><script defer src="${script}"></script></head>
      <body class="ks-body"><a class="ks-skip" href="#ks-main">${say("skip")}</a><header class="ks-top">${brand}${menu}</header>
      <main id="ks-main" class="ks-main" tabindex="-1">${main}</main></body></html>`);
  return {
    /** By path. */
    files,
    /** A page for its owner. */
    page({ here, query }: PortalView, { title, heading = title, actions, body }: Content): string {
      const notice = NOTICES.find((one) => one === query.get("notice"));
      const isHere = (to: string): boolean => (to === "/" ? !/^\/(?:usage|statement)$/.test(here) : here === to);
      const items = MENU.filter(([to]) => to === "/" || analytics !== undefined).map(
        ([to, text]) =>
          html`<li><a href="${path(to)}"${isHere(to) && html` aria-current="page"`}>${say(text)}</a></li>`,
      );
      return document(
        title,
        items.length > 1 && html`<nav class="ks-menu" aria-label="${say("portal")}"><ul>${items}</ul></nav>`,
        html`${notice !== undefined && html`<p class="ks-alert ks-good" role="status">${say(notice)}</p>`}
          <header class="ks-head"><div><h1>${heading}</h1></div>
          ${actions !== undefined && html`<div class="ks-actions">${actions}</div>`}</header>${body}`,
      );
    },
    /** A page for nobody, or an error. @param body below what is said */
    said: (text: TextName, body: Part = html`<p>${link(path("/"), say("keys"))}</p>`): string =>
      document(
        say("portal"),
        undefined,
        html`<header class="ks-head"><div><h1>${say(text)}</h1></div></header>${body}`,
      ),
  };
}

/** What is the same on all pages of a portal. */
export type Frame = ReturnType<typeof createFrame>;
