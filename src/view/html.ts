/**
 * HTML as a type of its own: what a template is given is escaped, unless a template made it.
 *
 * Why by construction: names, metadata and external ids come from anybody, and one place that forgets to escape is
 * enough.
 */
const TEXT = Symbol("html");

/** HTML that {@link html} made; nothing else can make one. */
export interface Html {
  readonly [TEXT]: string;
}

/** What a template may hold. `false`, `null` and `undefined` are nothing. */
export type Part = Html | string | number | false | null | undefined | readonly Part[];

/** Where a template stands: in text, in a tag, or in a quoted value of an attribute. */
type Place = "text" | "tag" | "value";

/**
 * A template. Line breaks beside tags are for its reader, and left out. In text, characters that are invisible or
 * change the direction of writing are shown by their numbers; in values of attributes they are kept, so that forms
 * return what they were given.
 * @throws TypeError for text in a tag without quotes around it
 */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  let text = onOneLine(strings[0]);
  let place = placeAfter(text, "text");
  for (const [i, part] of parts.entries()) {
    const next = onOneLine(strings[i + 1]);
    text += write(part, place) + next;
    place = placeAfter(next, place);
  }
  return { [TEXT]: text };
}

/** Text as it is, for what a `textarea` or a `pre` holds. */
export const literal = (text: string): Html => ({ [TEXT]: escape(text) });

/** The text of a page. */
export const toText = (page: Html): string => page[TEXT];

export const isHtml = (part: unknown): part is Html => typeof part === "object" && part !== null && TEXT in part;

/** Parts with something between them. */
export function join(parts: readonly Part[], between: Part): Part[] {
  return parts.flatMap((part, i) => (i === 0 ? [part] : [between, part]));
}

function write(part: Part, place: Place): string {
  if (part === false || part === null || part === undefined) return "";
  if (isHtml(part)) return part[TEXT];
  if (typeof part === "object") return part.map((one) => write(one, place)).join("");
  if (place === "tag") throw new TypeError("text in a tag must be in quotes");
  return escape(place === "text" ? visible(String(part)) : String(part));
}

/** A line break between words is a space. */
const onOneLine = (text = ""): string => text.replace(/([^>\s])\s*\n\s*(?=[^<\s])/g, "$1 ").replace(/\s*\n\s*/g, "");

function placeAfter(text: string, before: Place): Place {
  let place = before;
  for (const character of text) {
    if (place === "text") place = character === "<" ? "tag" : "text";
    else if (character === '"') place = place === "tag" ? "value" : "tag";
    else if (place === "tag" && character === ">") place = "text";
  }
  return place;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

const escape = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character] as string);

/** Control characters, those without width, and those that change the direction of what follows. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u3164\uffa0\u115f\u1160]/gu;

/** Text in which every character can be seen. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character) => {
    const code = (character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, "0");
    return `\u2423U+${code}\u2423`;
  });
}
