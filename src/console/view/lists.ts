/** Pages of lists: what is searched for, the rows, and the way to the next page. */
import type { Pagination } from "../../keyring/schemas/responses.js";
import { button, type Field, searchForm } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { type Column, table } from "../../view/parts.js";
import type { View } from "./view.js";

/** What a list shows. */
export interface List {
  readonly title: string;
  readonly columns: readonly (string | Column)[];
  readonly rows: readonly (readonly Part[])[];
  readonly empty: string;
  readonly pagination: Partial<Pagination>;
  /** Beside the ways to other pages. */
  readonly note?: Part;
  /** What the way to the next page says; default "Next page". */
  readonly next?: string;
}

/** Without a script, which goes on with a search that takes long, one answer may take long. */
const PATIENT = html`<noscript><input type="hidden" name="long" value="1"></noscript>`;

/** A list under its search field. @param more is shown below the list: what the search found elsewhere */
export const searched = (view: View, fields: readonly Field[], list: List | Html, more?: Part): Html => {
  const [title, found] = "rows" in list ? [list.title, listed(view, list)] : ["Keys", list];
  return html`${searchForm(view, title, fields, PATIENT)}<div id="ks-found">${found}${more}</div>`;
};

/** A page of a list, and the ways to the next and the first one. No list says how many rows it has. */
export function listed(
  view: View,
  { title, columns, rows, empty, pagination: { cursor }, note, next = "Next page" }: List,
): Html {
  const isFirst = !view.query.has("cursor");
  const rest =
    (cursor !== undefined || !isFirst || note !== undefined) &&
    html`
    <nav class="ks-pager" aria-label="Pages"><span>${note}</span><span class="ks-actions">
    ${!isFirst && button(view, toPage(view, {}), "First page")}
    ${cursor !== undefined && button(view, toPage(view, { cursor }), next)}</span></nav>`;
  return html`${table(title, columns, rows, empty)}${rest}`;
}

/** This list elsewhere. @param at such as the cursor of a page */
export function toPage({ here, query }: View, at: Readonly<Record<string, string | number | undefined>>): string {
  const asked = new URLSearchParams(query);
  for (const name of ["notice", "cursor", "searched", "shown"]) asked.delete(name);
  for (const [name, value] of Object.entries(at)) if (value !== undefined) asked.set(name, String(value));
  return `${here}?${asked.toString()}`;
}

/** What the address asks for by these names, where that is not empty. */
export function asked({ query }: View, ...names: readonly string[]): Record<string, string> {
  const found = names.map((name) => [name, query.get(name) ?? ""] as const);
  return Object.fromEntries(found.filter(([, value]) => value !== ""));
}

/** The field of a search, as the address has it. */
export const searchField = ({ query }: View, placeholder: string): Field => ({
  ...{ name: "search", label: "Search", type: "search", placeholder },
  value: query.get("search") ?? "",
});
