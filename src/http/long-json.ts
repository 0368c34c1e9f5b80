/**
 * Parses a long body a piece at a time, and yields to others in between. All of it is counted before any value is made:
 * what it may not have is refused, and what its values will take can be reserved.
 *
 * Why: `JSON.parse` of 1 MiB takes 3 ms for plain keys, but 100 ms for names and 25 ms for texts that all differ, and
 * makes 14 MB of `[],[],…`. Lists and objects longer than a piece are cut between their members.
 */
import { badBody, endOfText } from "./json-text.js";

/** Characters of a piece, or one member without others in it if that is longer. Parsed in 2.5 ms at worst. */
const PIECE_CHARACTERS = 8_192;
/** Milliseconds after which others get their turn. */
const TURN_MS = 1;
/** Characters counted between two looks at the clock. */
const CHARACTERS_PER_LOOK = 16_384;
/** Maximum nesting: `meta` may have 32 levels, and is three levels deep in an import. */
const MAX_LEVELS = 64;
/**
 * Maximum properties, nested ones included: a legal body has at most 10,000, since `meta` has at most 64 KB. Parsing
 * takes two microseconds for each name that was not seen before. In imports each key may have as many.
 */
const MAX_PROPERTIES = 16_384;
/** Characters of the shortest key of an import, with its comma: `{"hash":"abc"},`. */
const SHORTEST_KEY = 15;

/**
 * Bytes of values in memory, rounded up from what 1 MiB of each takes in Node 20: a list, an object, a property
 * whose name was not seen before, any other member, and a character of text.
 */
const LIST_BYTES = 40;
const OBJECT_BYTES = 64;
const PROPERTY_BYTES = 176;
const MEMBER_BYTES = 20;
const CHARACTER_BYTES = 2;
/** What the worst body of all takes for each of its bytes, its buffer included: `{"":1,"":1,…}`. */
export const MAX_BYTES_PER_BYTE = 44;

const BRACKET = 0x5b;
const BRACE = 0x7b;
const CLOSING_BRACKET = 0x5d;
const CLOSING_BRACE = 0x7d;
const COLON = 0x3a;
const COMMA = 0x2c;
const QUOTE = 0x22;
const BLANK = /^[\t\n\r ]*$/;

/** What a body may have. */
export interface BodyShape {
  /** Values of the largest legal body; of an import, of the largest legal key. */
  readonly maxValues: number;
  /** Whether the body lists keys, to each of which the bounds apply. */
  readonly isImport: boolean;
}

/** Waits for another turn of the event loop. */
export type NextTurn = () => Promise<void>;

/**
 * @returns `text` · `bytes` that its values will take in memory · `long`: where the lists and objects begin and end
 *   that are longer than a piece
 * @throws (rejects) SyntaxError, not for every text that is no JSON · KeystileError BAD_REQUEST: nested too deep, or
 *   with more than any legal body has
 */
export async function countJson(text: string, { maxValues, isImport }: BodyShape, turn: NextTurn) {
  const long = new Map<number, number>();
  const open: number[] = [];
  const maxItems = isImport ? Math.max(1_000, text.length / SHORTEST_KEY) : Infinity;
  const each = isImport ? " in each key" : "";
  let [lists, objects, properties, members, items, ownProperties, ownValues] = [0, 0, 0, 0, 0, 0, 0];
  let nextLook = CHARACTERS_PER_LOOK;
  let began = performance.now();
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) i = endOfText(text, i + 1);
    else if (unit === BRACKET || unit === BRACE) {
      if (open.push(i) > MAX_LEVELS) throw badBody(`must be nested at most ${MAX_LEVELS} levels deep`);
      if (unit === BRACKET) lists++;
      else objects++;
      ownValues++;
    } else if (unit === CLOSING_BRACKET || unit === CLOSING_BRACE) {
      const start = open.pop();
      // `[` and `{` are two less than what closes them.
      if (start === undefined || text.charCodeAt(start) !== unit - 2) throw new SyntaxError("brackets do not match");
      if (i - start > PIECE_CHARACTERS) long.set(start, i);
    } else if (unit === COLON) {
      properties++;
      if (++ownProperties > MAX_PROPERTIES)
        throw badBody(`must have at most ${MAX_PROPERTIES} properties${each || " in all"}`);
    } else if (unit === COMMA) {
      members++;
      if (isImport && open.length <= 2) {
        if (++items > maxItems) throw badBody("must have no more items than keys of the shortest hash");
        ownProperties = ownValues = 0;
      }
      ownValues++;
    }
    if (ownValues > maxValues) throw badBody(`must have at most ${maxValues} values${each}`);
    if (i < nextLook) continue;
    nextLook = i + CHARACTERS_PER_LOOK;
    if (performance.now() - began < TURN_MS) continue;
    await turn();
    began = performance.now();
  }
  if (open.length > 0) throw new SyntaxError("unexpected end");
  const bytes =
    lists * LIST_BYTES +
    objects * OBJECT_BYTES +
    properties * PROPERTY_BYTES +
    members * MEMBER_BYTES +
    text.length * CHARACTER_BYTES;
  return { text, bytes, long };
}

/** A text that was counted. */
export type CountedJson = Awaited<ReturnType<typeof countJson>>;

/**
 * @returns what `JSON.parse(text)` does
 * @throws (rejects) SyntaxError
 */
export async function parseCounted({ text, long }: CountedJson, turn: NextTurn): Promise<unknown> {
  let began = performance.now();

  /** Adds the members of a text with commas between them. */
  const append = async (to: unknown[] | object, members: string): Promise<void> => {
    if (Array.isArray(to)) {
      const items = JSON.parse(`[${members}]`) as unknown[];
      // `[1,]` is no JSON.
      if (items.length === 0) throw new SyntaxError("an item is missing");
      for (const item of items) to.push(item);
    } else {
      const part = JSON.parse(`{${members}}`) as Record<string, unknown>;
      const names = Object.keys(part);
      if (names.length === 0) throw new SyntaxError("a property is missing");
      for (const name of names) define(to, name, part[name]);
    }
    if (performance.now() - began < TURN_MS) return;
    await turn();
    began = performance.now();
  };

  const parse = async (start: number, end: number): Promise<unknown> => {
    const whole: unknown[] | object = text.charCodeAt(start) === BRACKET ? [] : {};
    // Where the members begin that were not parsed yet, and where the last of them does; −1: none may follow.
    let [from, member] = [start + 1, start + 1];
    let level = 0;
    for (let i = start + 1; i < end; i++) {
      const unit = text.charCodeAt(i);
      if (unit === QUOTE) i = endOfText(text, i + 1);
      else if (unit === BRACKET || unit === BRACE) {
        const close = long.get(i);
        if (close === undefined) {
          level++;
          continue;
        }
        // All around a long one are long: it is a member of this.
        if (member > from) await append(whole, text.slice(from, member - 1));
        const name = nameIn(text.slice(member, i), whole);
        const value = await parse(i, close);
        if (Array.isArray(whole)) whole.push(value);
        else define(whole, name, value);
        const after = nextSign(text, close + 1);
        if (after === end) return whole;
        if (text.charCodeAt(after) !== COMMA) throw new SyntaxError("a comma is missing");
        i = after;
        from = member = after + 1;
      } else if (unit === CLOSING_BRACKET || unit === CLOSING_BRACE) level--;
      else if (unit === COMMA && level === 0) {
        member = i + 1;
        if (i - from < PIECE_CHARACTERS) continue;
        await append(whole, text.slice(from, i));
        from = member;
      }
    }
    await append(whole, text.slice(from, end));
    return whole;
  };

  const start = nextSign(text, 0);
  const end = long.get(start);
  if (end === undefined) return JSON.parse(text) as unknown;
  if (!BLANK.test(text.slice(end + 1))) throw new SyntaxError("unexpected text after the end");
  return parse(start, end);
}

/** Not assigned: the name may be `__proto__`. */
function define(object: object, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
}

/** The name that stands before a value, as a member of `whole`. */
function nameIn(before: string, whole: unknown[] | object): string {
  // A list stands for the value: a digit would join one that stands before the value, as in `{"a":1[…]}`.
  if (!Array.isArray(whole)) return Object.keys(JSON.parse(`{${before}[]}`) as object)[0] as string;
  if (!BLANK.test(before)) throw new SyntaxError("unexpected text before an item");
  return "";
}

/** Index of the next character that is no blank. */
function nextSign(text: string, from: number): number {
  let at = from;
  while (at < text.length && BLANK.test(text[at] as string)) at++;
  return at;
}
