/** Reads the keys of an import: a JSON array or one key per line, from a flag, a file or stdin. Validates no key. */
import { statSync } from "node:fs";
import { usage } from "../io/failures.js";
import { chain, linesOf, openBytes, parseJson, textOf } from "../io/input.js";
import type { Io } from "../io/io.js";

const FLAG = "--keys";

/** Keys, not validated. */
export type KeySource =
  /** All in memory. */
  | { readonly list: readonly unknown[] }
  /** Read on demand; a file can be read again. */
  | { readonly read: () => AsyncIterable<unknown>; readonly isRepeatable: boolean };

/**
 * Opens the value of `--keys`: a JSON array; `@file` (`.ndjson` and `.jsonl`: one key per line; `.json`: an array;
 * otherwise decided by the first character); `-` for stdin, decided the same way, as are pipes with a path.
 * @throws failure 2: not readable, not JSON, not an array
 */
export async function openKeys(io: Io, value: string): Promise<KeySource> {
  if (value !== "-" && !value.startsWith("@")) return { list: toList(value) };
  const open = () => openBytes(io, FLAG, value);
  if (value === "-" || isPipe(value.slice(1))) return openOnce(open());
  if (await isLines(value, open)) return { read: () => parseLines(open()), isRepeatable: true };
  return { list: toList(await textOf(open(), FLAG)) };
}

async function isLines(path: string, open: () => AsyncIterable<Uint8Array>): Promise<boolean> {
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

async function openOnce(source: AsyncIterable<Uint8Array>): Promise<KeySource> {
  const bytes = source[Symbol.asyncIterator]();
  const { isObject, read } = await peek(bytes);
  const all = chain(read, bytes);
  return isObject ? { read: () => parseLines(all), isRepeatable: false } : { list: toList(await textOf(all, FLAG)) };
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

function toList(text: string): readonly unknown[] {
  const value = parseJson(text, FLAG);
  if (!Array.isArray(value)) throw usage(`${FLAG}: must be a JSON array of keys; @file.ndjson takes one key a line`);
  return value;
}

async function* parseLines(source: AsyncIterable<Uint8Array>): AsyncIterable<unknown> {
  for await (const { line, text } of linesOf(source, FLAG)) yield parseJson(text, `${FLAG}, line ${line}`);
}
