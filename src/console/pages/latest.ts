/** What takes long to work out: shown as it was a while ago, and never waited for long. */
import { clearTimeout, setTimeout } from "../../lib/timers.js";
import { time } from "../../view/format.js";
import { html, type Html } from "../../view/html.js";
import type { View } from "../view/view.js";

/** Milliseconds after which what everybody shares is worked out anew. */
export const MINUTE = 60_000;
/** The oldest that is shown meanwhile. */
const OLDEST = 86_400_000;
/** Milliseconds for which a page waits. */
const PATIENCE = 60;

/** What resolves in so many milliseconds. A rejection later than that is of nobody. */
export async function soon<T>(asking: Promise<T>, ms = PATIENCE): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), ms)));
  asking.catch(() => undefined);
  try {
    return await Promise.race([asking, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** What was worked out in the last minute; where that takes long, what was before; undefined: there is nothing yet. */
export async function latest<T>(read: (maxAge: number) => Promise<T>): Promise<T | undefined> {
  return (await soon(read(MINUTE))) ?? (await soon(read(OLDEST), 1));
}

/** When it was worked out, unless that is now. */
export const asOf = (view: View, at: number): Html | false =>
  view.now - at >= 1_000 && html`<span class="ks-muted">As of ${time(at, view.now)}</span>`;

/** A part of a page that the script goes on with. @param more address of the next part; absent: this page, again */
export const going = (id: string, body: Html, more?: string): Html =>
  html`<div id="${id}" class="ks-going" ${more === undefined ? html`data-again` : html`data-more="${more}"`}>${body}</div>`;

/** The same once it is whole. */
export const whole = (id: string, body: Html): Html => html`<div id="${id}">${body}</div>`;
