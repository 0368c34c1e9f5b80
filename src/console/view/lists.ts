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
}

/** A list under its search field. @param more is shown below the list: what the search found elsewhere */
export const searched = (view: View, fields: readonly Field[], list: List, more?: Part): Html =>
  html`${searchForm(view, list.title, fields)}<div id="ks-found">${listed(view, list)}${more}</div>`;

/** A page of a list, and the ways to the next and the first one. No list says how many rows it has. */
export function listed(view: View, { title, columns, rows, empty, pagination: { cursor }, note }: List): Html {
  const isFirst = !view.query.has("cursor");
  const rest =
    (cursor !== undefined || !isFirst || note !== undefined) &&
    html`
    <nav class="ks-pager" aria-label="Pages"><span>${note}</span><span class="ks-actions">
    ${!isFirst && button(view, toPage(view, undefined), "First page")}
    ${cursor !== undefined && button(view, toPage(view, cursor), "Next page")}</span></nav>`;
  return html`${table(title, columns, rows, empty)}${rest}`;
}

/** This list at a cursor. */
function toPage({ here, query }: View, cursor: string | undefined): string {
  const asked = new URLSearchParams(query);
  for (const name of ["notice", "cursor"]) asked.delete(name);
  if (cursor !== undefined) asked.set("cursor", cursor);
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
