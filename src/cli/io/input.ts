/**
 * Reads the value of a flag: the text itself, `@file`, or `-` for stdin; strictly UTF-8. A file may begin with a byte
 * order mark, as spreadsheets write it: it is no part of the text, and the service takes one before a body too.
 */
import { isUtf8 } from "node:buffer";
import { open, type FileHandle } from "node:fs/promises";
import { usage } from "./failures.js";
import type { Io } from "./io.js";

/** Maximum bytes of one JSON text, which is read into memory, unlike lines. */
const MAX_BYTES = 268_435_456;

/**
 * Reads the text behind a flag.
 * @param flag for messages, such as `--keys`
 * @param value the text, `@path`, or `-`
 * @throws failure 2: no such file, not UTF-8, or over 256 MiB
 */
export async function readText(io: Io, flag: string, value: string): Promise<string> {
  return value === "-" || value.startsWith("@") ? textOf(openBytes(io, flag, value), flag) : value;
}

/**
 * As {@link readText}, for a key or another secret: a file or stdin keeps it out of the process list.
 * @returns the text without the final line break that a file or stdin may have
 */
export async function readSecret(io: Io, flag: string, value: string): Promise<string> {
  if (value !== "-" && !value.startsWith("@")) return value;
  // A secret that begins with @ is taken for a path, so errors do not repeat it.
  return (await textOf(openBytes(io, flag, value, "the file after @"), flag)).replace(/\r?\n$/, "");
}

/** All of a source as one text, with the errors of {@link readText}. */
export async function textOf(source: AsyncIterable<Uint8Array>, flag: string): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const bytes of source) {
    size += bytes.length;
    if (size > MAX_BYTES)
      throw usage(`${flag}: more than 256 MiB of JSON as one text; write one value a line (.ndjson)`);
    parts.push(bytes);
  }
  return decode(Buffer.concat(parts), flag);
}

/** As {@link readText}, as JSON. */
export async function readJson(io: Io, flag: string, value: string): Promise<unknown> {
  return parseJson(await readText(io, flag, value), flag);
}

/** @throws failure 2 with the position of the syntax error, but no text, which may be a secret */
export function parseJson(text: string, where: string): unknown {
  const { value, problem } = tryJson(text);
  if (problem !== undefined) throw usage(`${where}: ${problem}`);
  return value;
}

/** The value of a JSON text; or a problem with the position of the syntax error, but no text. */
export function tryJson(text: string): { readonly value?: unknown; readonly problem?: string } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    const position = /position (\d+)/.exec((error as Error).message)?.[1];
    return { problem: `not JSON${position === undefined ? "" : `, at character ${position}`}` };
  }
}

/** A line of a source, or why it cannot be read. */
export interface Line {
  /** Its number, from 1. */
  readonly line: number;
  /** Without what ends it; absent with a problem. */
  readonly text?: string;
  readonly problem?: string;
}

/**
 * The non-blank lines of a source; only one is in memory at a time. One that is not UTF-8 or is over 1 MiB comes as a
 * problem, and the next one follows.
 * @throws failure 2: the source cannot be read
 */
export async function* linesOf(source: AsyncIterable<Uint8Array>): AsyncIterable<Line> {
  for await (const { line, text, problem } of wholeLinesOf(source)) {
    if (problem !== undefined) yield { line, problem };
    else if (text?.trim()) yield { line, text: text.trim() };
  }
}

/** As {@link linesOf}, blank lines and blanks at the ends included. */
export async function* wholeLinesOf(source: AsyncIterable<Uint8Array>): AsyncIterable<Line> {
  let line = 0;
  for await (const bytes of splitLines(source)) {
    line++;
    yield { line, ...(bytes === undefined ? { problem: "more than 1 MiB; write one key a line" } : decodeLine(bytes)) };
  }
}

const LINE_FEED = 0x0a;
/** Maximum bytes of a line: the free-form data of a key is at most 64 KB. */
const MAX_LINE = 1_048_576;

/** The bytes of each line; `undefined` for a line that is too long, of which no more than that is kept. */
async function* splitLines(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array | undefined> {
  let rest: Uint8Array | undefined = new Uint8Array();
  for await (const bytes of source) {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      yield append(rest, bytes.subarray(from, end));
      rest = new Uint8Array();
      from = end + 1;
    }
    rest = append(rest, bytes.subarray(from));
  }
  if (rest === undefined || rest.length > 0) yield rest;
}

function append(line: Uint8Array | undefined, more: Uint8Array): Uint8Array | undefined {
  if (line === undefined || line.length + more.length > MAX_LINE) return undefined;
  return line.length === 0 ? more : more.length === 0 ? line : Buffer.concat([line, more]);
}

function decodeLine(bytes: Uint8Array): Omit<Line, "line"> {
  return isUtf8(bytes) ? { text: Buffer.from(bytes).toString("utf8") } : { problem: NOT_UTF8 };
}

/** The items already read from a source, then the rest of it. */
export async function* chain<T>(first: readonly T[], rest: AsyncIterator<T>): AsyncIterable<T> {
  yield* first;
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value;
}

/** The bytes of `@file` or `-` (stdin). @param shown what errors call the file; default: its path */
export function openBytes(io: Io, flag: string, value: string, shown?: string): AsyncIterable<Uint8Array> {
  return withoutMark(value === "-" ? io.stdin : readFile(value.slice(1), flag, shown));
}

async function* readFile(path: string, flag: string, shown = path): AsyncIterable<Uint8Array> {
  let file: FileHandle;
  try {
    file = await open(path);
  } catch (error) {
    throw unreadable(flag, shown, error);
  }
  try {
    yield* file.createReadStream({ autoClose: false }) as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw unreadable(flag, shown, error);
  } finally {
    await file.close();
  }
}

function unreadable(flag: string, shown: string, error: unknown) {
  const { code } = error as NodeJS.ErrnoException;
  const why = code === "ENOENT" ? "there is no such file" : `it cannot be read (${code ?? "unknown"})`;
  return usage(`${flag}: ${shown}: ${why}`);
}

/** @throws failure 2 */
function decode(bytes: Uint8Array, where: string): string {
  if (!isUtf8(bytes)) throw usage(`${where}: ${NOT_UTF8}`);
  return Buffer.from(bytes).toString("utf8");
}

/** Strict: invalid bytes must not become U+FFFD, which would be another key. */
const NOT_UTF8 = "not UTF-8";

const MARK = Buffer.from("\ufeff");

/** The bytes of a source without its byte order mark, if it begins with one; a pipe may bring it in pieces. */
async function* withoutMark(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  let start: Buffer | undefined = Buffer.alloc(0);
  for await (const bytes of source) {
    if (start !== undefined) start = Buffer.concat([start, bytes]);
    else yield bytes;
    if (start === undefined || start.length < MARK.length) continue;
    yield start.subarray(0, MARK.length).equals(MARK) ? start.subarray(MARK.length) : start;
    start = undefined;
  }
  if (start !== undefined) yield start;
}
