/**
 * What the search form of a list does: the text of a key leads to the key; anything else is searched for in the list,
 * at an address of its own.
 */
import { hasChecksum } from "../../lib/hash.js";
import { button, TOKEN } from "../../view/form.js";
import { html } from "../../view/html.js";
import { unless } from "../../view/pages.js";
import type { Done, View } from "../view/view.js";
import { toKey } from "./key-parts.js";

/** What a search for keys looks at. */
export const SEARCHED = "Name, owner, id, start or whole key";
/** Shorter texts are not looked for as keys. */
const MIN_KEY = 16;

/** Sends a search to where its result is. No key of this library gets into an address, also none that is not found. */
export async function search(view: View): Promise<Done> {
  const asked = [...view.form].map(([name, value]) => [name, value.trim()] as const);
  const fields = asked.filter(([name, value]) => name !== TOKEN && value !== "");
  for (const [, text] of fields) {
    if (text.length < MIN_KEY) continue;
    const keyId = view.may("keys.whoami") ? await keyOf(view, text) : undefined;
    if (keyId !== undefined) return { to: toKey(keyId), notice: "found" };
    if (hasChecksum(text)) return notFound(view);
  }
  const query = new URLSearchParams(fields as [string, string][]).toString();
  return { to: query === "" ? view.here : `${view.here}?${query}` };
}

/** The id of the key that has this text; undefined: none that the caller may see has it. */
export async function keyOf(view: View, key: string): Promise<string | undefined> {
  const asking = view.ask("keys.whoami", { key, includeDeleted: true });
  return (await asking.catch(unless(({ status }) => status < 500)))?.keyId;
}

const notFound = (view: View): Done => ({
  title: "No key has this text",
  about: "It has the form of a key, and is none that you may see. It was not stored or put in the page address.",
  body: html`<p class="ks-buttons">${button(view, view.here, "Back to the list")}</p>`,
});
