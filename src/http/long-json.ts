/**
 * Parses a long body a piece at a time, and yields to others in between.
 *
 * Why: `JSON.parse` of 1 MiB takes 3 ms for plain keys, but 100 ms for names and 25 ms for texts that all differ. What
 * makes a body long is a list in one of its properties: it is cut between its items.
 */
import { badBody, endOfText } from "./json-text.js";

/** Characters of a piece, or one item of the list if that is longer. */
const PIECE_CHARACTERS = 16_384;
/** Milliseconds after which others get their turn. */
const TURN_MS = 3;
/** Maximum items of the lists and objects on the first two levels: 1 MiB holds 70,000 keys of the shortest hash. */
const MAX_ITEMS = 75_000;
/** Maximum values below those, of one item: `meta` at its longest has 32,768. */
const MAX_VALUES = 40_000;

const BRACKET = 0x5b;
const BRACE = 0x7b;
const CLOSING_BRACKET = 0x5d;
const CLOSING_BRACE = 0x7d;
const COLON = 0x3a;
const COMMA = 0x2c;
const QUOTE = 0x22;

/** Bounds of {@link parseLong}. */
export interface LongBounds {
  readonly maxLevels: number;
  readonly maxProperties: number;
  /** Whether that many properties are allowed in each item of a list, and not in all of them together. */
  readonly ofEachItem: boolean;
}

/** A list in a property of the body that is being read. */
interface OpenList {
  /** The property's name, as JSON. */
  readonly name: string;
  /** Where its items begin, and where those begin that are not parsed yet. */
  readonly from: number;
  start: number;
  /** Those of earlier pieces. */
  readonly items: unknown[];
}

/**
 * @param turn waits for another turn of the event loop
 * @returns what `JSON.parse(text)` does
 * @throws (rejects) SyntaxError · KeystileError BAD_REQUEST: nested too deep, or with too many properties, items or
 *   values
 */
export async function parseLong(text: string, bounds: LongBounds, turn: () => Promise<void>): Promise<unknown> {
  const { maxLevels, maxProperties, ofEachItem } = bounds;
  const lists = new Map<string, readonly unknown[]>();
  let [level, properties, items, values] = [0, 0, 0, 0];
  /** The text without the items that were parsed, and where it goes on. */
  let [frame, copied] = ["", 0];
  let isObject = false;
  let name = '""';
  let list: OpenList | undefined;
  let began = performance.now();
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) {
      const end = endOfText(text, i + 1);
      if (level === 1) name = text.slice(i, end + 1);
      i = end;
    } else if (unit === BRACKET || unit === BRACE) {
      if (++level > maxLevels) throw badBody(`must be nested at most ${maxLevels} levels deep`);
      if (level === 1) isObject = unit === BRACE;
      if (level === 2 && isObject && unit === BRACKET) list = { name, from: i + 1, start: i + 1, items: [] };
    } else if (unit === CLOSING_BRACKET || unit === CLOSING_BRACE) {
      if (level-- === 2 && list !== undefined) {
        if (list.start > list.from) {
          append(list.items, text.slice(list.start, i));
          lists.set(JSON.parse(list.name) as string, list.items);
          frame += text.slice(copied, list.from);
          copied = i;
        }
        list = undefined;
      }
    } else if (unit === COLON) {
      if (++properties > maxProperties)
        throw badBody(`must have at most ${maxProperties} properties in ${ofEachItem ? "each item" : "all"}`);
      // Of properties with the same name the last one counts.
      if (level === 1) lists.delete(JSON.parse(name) as string);
    } else if (unit === COMMA) {
      if (level > 2) {
        if (++values > MAX_VALUES) throw badBody(`must have at most ${MAX_VALUES} values in each item`);
        continue;
      }
      if (++items > MAX_ITEMS) throw badBody(`must have at most ${MAX_ITEMS} items`);
      values = 0;
      if (ofEachItem) properties = 0;
      if (level < 2 || list === undefined || i - list.start < PIECE_CHARACTERS) continue;
      append(list.items, text.slice(list.start, i));
      list.start = i + 1;
      if (performance.now() - began < TURN_MS) continue;
      await turn();
      began = performance.now();
    }
  }
  // A list that never ends: the frame would have none of it.
  if (list !== undefined) throw new SyntaxError("unexpected end");
  if (copied === 0) return JSON.parse(text) as unknown;
  const body = JSON.parse(frame + text.slice(copied)) as object;
  // Not assigned: the name may be `__proto__`.
  for (const [property, value] of lists)
    Object.defineProperty(body, property, { value, enumerable: true, writable: true, configurable: true });
  return body;
}

/** @param piece some of the items of a list, with commas between them */
function append(items: unknown[], piece: string): void {
  const parsed = JSON.parse(`[${piece}]`) as unknown[];
  // `[1,]` is no JSON.
  if (parsed.length === 0) throw new SyntaxError("an item is missing");
  for (const item of parsed) items.push(item);
}
