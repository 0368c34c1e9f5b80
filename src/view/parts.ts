/** What pages are made of: tables, lists of facts, badges, bars. */
import { number } from "./format.js";
import { html, type Html, type Part, visible } from "./html.js";

/** Characters that a table never cuts: those of an id. */
const SHORT = 26;

/** A name that came from anybody: its direction of writing ends with it. */
export const name = (text: string): Html => html`<bdi class="ks-name"${whole(text)}>${text}</bdi>`;
/** An id, a key's start, a permission. */
export const code = (text: string): Html => html`<code${whole(text)}><bdi>${text}</bdi></code>`;
/** Of a text that a table may cut short, all of it. */
const whole = (text: string): Part => text.length > SHORT && html` title="${visible(text)}"`;
export const muted = (part: Part): Html => html`<span class="ks-muted">${part}</span>`;
export const link = (href: string, part: Part): Html => html`<a href="${href}">${part}</a>`;

/** How a badge or a bar is coloured; its text says the same. */
export type Tone = "good" | "bad" | "warn" | "plain";
export const badge = (tone: Tone, text: Part): Html => html`<span class="ks-badge ks-${tone}">${text}</span>`;

/** A column: its title, and whether it holds numbers. */
export interface Column {
  readonly title: Part;
  readonly isNumber?: boolean;
}

/**
 * A table; on a narrow screen each row is a card. Roles are written out, since a table that is laid out otherwise loses
 * those of its own.
 * @param caption for screen readers
 * @param empty what is said in place of a table without rows
 */
export function table(
  caption: Part,
  columns: readonly (string | Column)[],
  rows: readonly (readonly Part[])[],
  empty: Part,
): Html {
  if (rows.length === 0) return html`<p class="ks-empty">${empty}</p>`;
  const all = columns.map((column) => (typeof column === "string" ? { title: column } : column));
  const classOf = ({ isNumber }: Column): string => (isNumber === true ? "ks-number" : "");
  const head = all.map(
    (column) => html`<th role="columnheader" scope="col" class="${classOf(column)}">${column.title}</th>`,
  );
  const cell = (part: Part, i: number): Html => {
    const column = all[i] as Column;
    return html`<td role="cell" class="${classOf(column)}" data-title="${column.title}"><div>${part}</div></td>`;
  };
  return html`<table class="ks-table" role="table"><caption class="ks-hidden">${caption}</caption><thead role="rowgroup"><tr role="row">${head}</tr></thead><tbody role="rowgroup">${rows.map((row) => html`<tr role="row">${row.map(cell)}</tr>`)}</tbody></table>`;
}

/** Facts by name; those without a value are left out. */
export function facts(all: readonly (readonly [title: Part, value: Part])[]): Html {
  const shown = all.filter(([, value]) => value !== undefined && value !== false);
  return html`<dl class="ks-facts">${shown.map(([title, value]) => html`<div><dt>${title}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A part of a page with a heading. @param aside beside the heading */
export function section(title: Part, body: Part, aside?: Part): Html {
  return html`<section class="ks-section"><header><h2>${title}</h2>${aside}</header>${body}</section>`;
}

/** How much of a whole is left, as a bar with the same in words; below a tenth it runs low. */
export function bar(left: number, whole: number, text: Part): Html {
  const width = whole > 0 ? Math.max(0, Math.min(100, (left / whole) * 100)) : 0;
  const tone: Tone = left <= 0 ? "bad" : left * 10 < whole ? "warn" : "good";
  return html`<span class="ks-bar"><span>${text}</span><svg class="ks-${tone}" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect class="ks-track" width="100" height="4" /><rect class="ks-fill" width="${width.toFixed(2)}" height="4" /></svg></span>`;
}

/** Items in a row that wraps; nothing for none. */
export const chips = (items: readonly Part[], none = "none"): Html =>
  items.length === 0 ? muted(none) : html`<ul class="ks-chips">${items.map((item) => html`<li>${item}</li>`)}</ul>`;

/** The start of a long list, and how many more there are. */
export function some(items: readonly string[], most = 40): Html {
  const shown: Part[] = items.slice(0, most).map(code);
  if (items.length > most) shown.push(muted(`and ${number(items.length - most)} more`));
  return chips(shown);
}
