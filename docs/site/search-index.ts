/** The index that the site searches in. */
import MiniSearch from "minisearch";
import { textOf } from "./html.js";
import type { Shown } from "./layout.js";
import { type Found, INDEX_OPTIONS } from "./search-options.js";

/** Characters that a result shows of its text. */
const START = 140;
/** Headings of TypeDoc that stand below every export. */
const REPEATED =
  /^(Properties|Methods|Parameters|Returns|Constructors?|Type Parameters|Extends|Extended by|See|Throws|Examples?)$/;

/** @returns JSON */
export function indexOf(pages: readonly Shown[]): string {
  const index = new MiniSearch<Found>(INDEX_OPTIONS);
  for (const page of pages) if (!page.place.startsWith("source/")) index.addAll(sectionsIn(page));
  return JSON.stringify(index);
}

/** The sections of a page, each with its heading. */
function sectionsIn({ place, title, html }: Shown): Found[] {
  const parts = html.split(/(?=<h[1-5] id=")/);
  const sections: Found[] = [];
  for (const part of parts) {
    const [whole = "", id = "", heading = ""] = /^<h[1-5] id="([^"]*)">(.*?) <a class="anchor"/.exec(part) ?? [];
    const name = textOf(heading);
    const below = part.slice(whole.length).replace(/^[^>]*>#<\/a>/, "");
    const text = textOf(below);
    const prose = textOf(below.replaceAll(/<(pre|table)\b[\s\S]*?<\/\1>/g, ""));
    const last = sections.at(-1);
    if (last !== undefined && (whole === "" || REPEATED.test(name))) {
      sections[sections.length - 1] = {
        ...last,
        text: `${last.text} ${text}`,
        start: `${last.start} ${prose}`.slice(0, START),
      };
    } else {
      sections.push({ id: `${place}#${id}`, page: title, heading: name, text, start: (prose || text).slice(0, START) });
    }
  }
  return sections;
}
