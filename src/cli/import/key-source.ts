/** Reads the keys of an import: JSON, one key per line or CSV, from a flag, a file or stdin. Validates no key. */
import { statSync } from "node:fs";
import { usage } from "../io/failures.js";
import { chain, linesOf, openBytes, parseJson, textOf, tryJson } from "../io/input.js";
import type { Io } from "../io/io.js";
import { readCsv } from "./csv.js";
import type { SourceRow } from "./values.js";

const FLAG = "--keys";

type Bytes = AsyncIterable<Uint8Array>;

/** The keys of an import. */
export interface KeySource {
  /** What the numbers of its rows count. */
  readonly unit: "line" | "item" | "row";
  /** Rows are read on demand. */
  readonly read: () => AsyncIterable<SourceRow>;
  /** How many there are, if they can be read twice: reads all of them. */
  readonly count?: () => Promise<number>;
  /** Is told of each row, by its number, whether it went in. */
  readonly settle?: (number: number, wentIn: boolean) => void;
}

/** Keys that are in memory. */
export function ofList(list: readonly unknown[]): KeySource {
  return {
    unit: "item",
    async *read() {
      for (const [i, value] of list.entries()) yield { number: i + 1, value };
    },
    count: async () => list.length,
  };
}

function ofLines(open: () => Bytes, isRepeatable: boolean): KeySource {
  return {
    unit: "line",
    read: () => parseLines(open()),
    ...(isRepeatable && { count: () => length(linesOf(open())) }),
  };
}

async function length(items: AsyncIterable<unknown>): Promise<number> {
  let count = 0;
  for await (const _ of items) count++;
  return count;
}

/**
 * Opens CSV: `@file`, or `-` for stdin.
 * @throws failure 2: it is neither; not readable
 */
export function openCsv(io: Io, value: string): KeySource {
  if (value !== "-" && !value.startsWith("@")) throw usage(`${FLAG}: CSV comes as @file or -`);
  const read = () => readCsv(openBytes(io, FLAG, value), FLAG);
  const isRepeatable = value !== "-" && !isPipe(value.slice(1));
  return { unit: "line", read, ...(isRepeatable && { count: () => length(read()) }) };
}

/**
 * Opens the value of `--keys`: a JSON array; `@file` (`.ndjson` and `.jsonl`: one key per line; `.json`: an array;
 * otherwise decided by the first character); `-` for stdin, decided the same way, as are pipes with a path.
 * @param toItems finds the keys in a JSON document; by default the document is an array of them
 * @throws failure 2: not readable; for what is not lines also not JSON, not an array
 */
export async function openKeys(io: Io, value: string, toItems: ToItems = toArray): Promise<KeySource> {
  const isText = value !== "-" && !value.startsWith("@");
  if (isText && !/^\s*[[{]/.test(value)) throw usage(`${FLAG}: not JSON; to read a file, write @ before its name`);
  if (isText) return toList(value, toItems);
  const open = (): Bytes => openBytes(io, FLAG, value);
  if (value === "-" || isPipe(value.slice(1))) return openOnce(open(), toItems);
  if (await isLines(value, open)) return ofLines(open, true);
  return toList(await textOf(open(), FLAG), toItems);
}

async function isLines(path: string, open: () => Bytes): Promise<boolean> {
  if (/\.(ndjson|jsonl)$/i.test(path)) return true;
  if (/\.json$/i.test(path)) return false;
  const bytes = open()[Symbol.asyncIterator]();
  const { isObject } = await peek(bytes);
  await bytes.return?.();
  return isObject;
}

/** Stdin by a path, or a pipe of the shell's `<(…)`. */
function isPipe(path: string): boolean {
  try {
    const stat = statSync(path);
    return stat.isFIFO() || stat.isCharacterDevice() || stat.isSocket();
  } catch {
    // A file that does not exist is refused when it is opened.
    return false;
  }
}

async function openOnce(source: Bytes, toItems: ToItems): Promise<KeySource> {
  const bytes = source[Symbol.asyncIterator]();
  const { isObject, read } = await peek(bytes);
  const all = chain(read, bytes);
  return isObject ? ofLines(() => all, false) : toList(await textOf(all, FLAG), toItems);
}

/** Reads up to the first character that is not whitespace. */
async function peek(
  bytes: AsyncIterator<Uint8Array>,
): Promise<{ readonly isObject: boolean; readonly read: readonly Uint8Array[] }> {
  const read: Uint8Array[] = [];
  let first = "";
  while (first === "") {
    const next = await bytes.next();
    if (next.done === true) break;
    read.push(next.value);
    first = Buffer.from(next.value).toString("latin1").trimStart().charAt(0);
  }
  return { isObject: first === "{", read };
}

type ToItems = (value: unknown) => readonly unknown[] | undefined;
const toArray: ToItems = (value) => (Array.isArray(value) ? value : undefined);

function toList(text: string, toItems: ToItems): KeySource {
  const items = toItems(parseJson(text, FLAG));
  if (items === undefined) throw usage(`${FLAG}: must be a JSON array of keys; @file.ndjson takes one key a line`);
  return ofList(items);
}

async function* parseLines(source: Bytes): AsyncIterable<SourceRow> {
  for await (const { line, text = "", problem } of linesOf(source)) {
    yield { number: line, ...(problem === undefined ? parseRow(text) : { problem }) };
  }
}

/** A key; or a row of a file of failures, which has the key, or the text that was none, beside what was wrong. */
function parseRow(text: string): Omit<SourceRow, "number"> {
  const { value, problem } = tryJson(text);
  if (problem !== undefined) return { problem, text };
  if (!isFailureRow(value)) return { value };
  if (typeof value.text !== "string") return { value: value.key };
  const mended = tryJson(value.text);
  return mended.problem === undefined ? { value: mended.value } : { problem: mended.problem, text: value.text };
}

/** Keys have none of these fields. */
function isFailureRow(value: unknown): value is { readonly key?: unknown; readonly text?: unknown } {
  if (typeof value !== "object" || value === null) return false;
  return Object.hasOwn(value, "reason") && (Object.hasOwn(value, "key") || Object.hasOwn(value, "text"));
}
