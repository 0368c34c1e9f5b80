/** What a page leaves out for lack of a right, and which right would show it. */
import { type OperationName, rightsOf } from "../ask.js";
import { html, type Part } from "../../view/html.js";
import { code, facts, section } from "../../view/parts.js";
import type { View } from "../view/view.js";

/** @param parts of the page, each with the operation that it needs */
export function notShown(view: View, parts: readonly (readonly [title: string, needs: OperationName])[]): Part {
  const absent = parts.filter(([, needs]) => !view.may(needs));
  if (absent.length === 0) return undefined;
  const rights = (needs: OperationName): Part => {
    // Marked by what no permission has, and taken apart again.
    const words = rightsOf(needs, (permission) => `\n${permission}\n`).split("\n");
    return html`needs ${words.map((word, i) => (i % 2 === 1 ? code(word) : word))}`;
  };
  return section("Not shown", facts(absent.map(([title, needs]) => [title, rights(needs)])));
}
