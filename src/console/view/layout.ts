/** The frame of every page. */
import { shortDigest } from "../../lib/hash.js";
import type { OperationName } from "../ask.js";
import { html, type Html, type Part, toText } from "../../view/html.js";
import { field, form } from "../../view/form.js";
import { muted, name } from "../../view/parts.js";
import { SCRIPT } from "./script.js";
import { ICON, STYLE } from "../../view/style.js";
import { type Content, NOTICES, type View } from "./view.js";

/** The files of a page, by path. Their addresses change with what is in them. */
export const FILES = {
  "/console.css": { type: "text/css; charset=utf-8", text: STYLE, version: shortDigest(STYLE) },
  "/console.svg": { type: "image/svg+xml", text: ICON, version: shortDigest(ICON) },
  "/console.js": { type: "text/javascript; charset=utf-8", text: SCRIPT, version: shortDigest(SCRIPT) },
} as const;

/** An entry of the menu, for whoever may do what it needs. */
interface Entry {
  readonly title: string;
  readonly path: string;
  readonly needs?: OperationName;
}

/** The menu, in groups. */
export const MENU: readonly (readonly Entry[])[] = [
  [
    { title: "Overview", path: "/" },
    { title: "Keys", path: "/keys", needs: "keys.searchKeys" },
    { title: "Owners", path: "/owners", needs: "identities.listIdentities" },
  ],
  [
    { title: "Roles", path: "/roles", needs: "permissions.listRoles" },
    { title: "Limits", path: "/limits", needs: "ratelimit.listNamespaces" },
    { title: "Import", path: "/import", needs: "keys.migrateKeys" },
    { title: "Permission query", path: "/query" },
  ],
  [
    { title: "Audit", path: "/audit", needs: "audit.listAudit" },
    { title: "Root keys", path: "/root-keys", needs: "rootKeys.listRootKeys" },
    { title: "Health", path: "/health" },
  ],
];

/** Absolute, since a page is the same wherever the console is mounted. */
type ToPath = (to: string) => string;

/** A page for who is signed in. */
export function page(view: View, { title, about, actions, body }: Content): string {
  const notice = view.query.get("notice") ?? "";
  const said = Object.hasOwn(NOTICES, notice) && NOTICES[notice as keyof typeof NOTICES];
  const main = html`<main id="ks-main" class="ks-main" tabindex="-1">
    ${said !== false && html`<p class="ks-alert ks-good" role="status">${said}</p>`}
    <header class="ks-head"><div><h1>${title}</h1>${about !== undefined && html`<p>${about}</p>`}</div>
    ${actions !== undefined && html`<div class="ks-actions">${actions}</div>`}</header>${body}</main>`;
  const menu = html`<nav aria-label="Console" class="ks-menu">${MENU.map((group) => menuOf(view, group))}</nav>`;
  return document(
    view.path,
    title,
    html`<a class="ks-skip" href="#ks-main">Skip to content</a><div class="ks-frame">
      <header class="ks-side">${brand(view.path)}${menu}${account(view)}</header>${main}</div>`,
  );
}

/** A page for nobody yet: signing in, or an error before it. */
export const outside = (path: ToPath, title: string, body: Part): string =>
  document(path, title, html`<main class="ks-door" id="ks-main">${brand(path)}<h1>${title}</h1>${body}</main>`);

/** What the form that signs in says and carries. */
export interface SignInParts {
  /** Why one has to. */
  readonly failure?: string;
  /** What was typed into the form of a session that has ended. */
  readonly kept?: string | undefined;
}

/** The form that signs in. It has no proof of a session: there is none yet. */
export function signInForm(path: ToPath, to: string, { failure, kept }: SignInParts): Html {
  const nobody = { form: new URLSearchParams(), failure: undefined } as View;
  const key = field(nobody, { name: "key", label: "Root key", type: "password", isRequired: true });
  return html`${failure !== undefined && html`<p class="ks-alert ks-bad" role="alert">${failure}</p>`}
    <form method="post" action="${path("/sign-in")}" class="ks-form"><input type="hidden" name="to" value="${to}">${kept !== undefined && html`<input type="hidden" name="kept" value="${kept}">`}${key}
    <div class="ks-buttons"><button class="ks-button ks-primary">Sign in</button></div></form>
    <p class="ks-hint">You can see and change whatever this root key allows. The browser does not keep it.</p>`;
}

function document(path: ToPath, title: string, body: Html): string {
  const file = (name: keyof typeof FILES): string => `${path(name)}?v=${FILES[name].version}`;
  return toText(html`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title} · keystile</title>
    <meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
    <link rel="stylesheet" href="${file("/console.css")}"><link rel="icon" href="${file("/console.svg")}">
    <script defer src="${file("/console.js")}"></script></head><body class="ks-body">${body}</body></html>`);
}

/** A key, in the colour of the page. */
const KEY = html`<svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true">
  <path d="M8 1a4 4 0 0 0-1.2 7.8V14L8.2 15.2l1.6-1.4-1-1.2 1-1.1-.9-.9V8.8A4 4 0 0 0 8 1Zm0 1.9a1.3 1.3 0 1 1 0 2.6 1.3 1.3 0 0 1 0-2.6Z"/></svg>`;
const brand = (path: ToPath): Html => html`<a class="ks-brand" href="${path("/")}">${KEY}keystile</a>`;

function menuOf(view: View, entries: readonly Entry[]): Part {
  const shown = entries.filter(({ needs }) => needs === undefined || view.may(needs));
  const isHere = ({ path }: Entry): boolean => view.here === path || (path !== "/" && view.here.startsWith(`${path}/`));
  const item = (entry: Entry): Html => html`<li>
    <a href="${view.path(entry.path)}"${isHere(entry) && html` aria-current="page"`}>${entry.title}</a></li>`;
  return html`<ul>${shown.map(item)}</ul>`;
}

function account(view: View): Html {
  const { signedIn, isReadOnly } = view;
  const out = { to: "/sign-out", submit: "Sign out", tone: "quiet", isInline: true } as const;
  return html`<div class="ks-account"><p>${muted("Signed in as")} ${name(signedIn.name)}${isReadOnly && muted(", read only")}</p>
    ${signedIn.hasSession && form(view, out)}</div>`;
}
