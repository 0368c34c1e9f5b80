/** Lists of rows: for people a table within the terminal's width, for programs JSON; page by page. */
import type { Command } from "commander";
import type { Page } from "../../keyring/schemas/responses.js";
import type { Io } from "./io.js";
import { toInteger } from "./parsers.js";
import { note, oneLine, paint, toJson } from "./text.js";

/** What a table shows of a row, by the title of each column. */
export type Columns<T> = Readonly<Record<string, (row: T) => string>>;

/** What a list takes. */
export interface ListFlags {
  readonly output?: "json" | undefined;
  /** Most rows; absent: {@link DEFAULT_LIMIT} in a table, all as JSON. */
  readonly limit?: number | undefined;
}

const DEFAULT_LIMIT = 50;
/** Most rows that a list shows. */
const MAX_ROWS = 1_000_000;
/** Rows of one call of the keyring. */
const MAX_PAGE = 100;
const GAP = "  ";

/** Adds the flag of every list. */
export function addLimit(command: Command): Command {
  return command.option("--limit <rows>", "at most this many; default: 50, or all as JSON", toInteger(1, MAX_ROWS));
}

/** Writes what `read` returns, so that a list of any length needs the memory of one page; until the reader has left. */
export async function writeList<T>(
  io: Io,
  { output, limit = output === "json" ? Infinity : DEFAULT_LIMIT }: ListFlags,
  read: (page: { readonly limit: number; readonly cursor?: string }) => Promise<Page<T>>,
  columns: Columns<T>,
): Promise<void> {
  const write = output === "json" ? jsonWriter<T>(io) : tableWriter(io, columns);
  let left = limit;
  let cursor: string | undefined;
  do {
    const page = await read({ limit: Math.min(left, MAX_PAGE), ...(cursor !== undefined && { cursor }) });
    // Not before: what is refused prints nothing.
    await write(page.data);
    if (io.stdout.isClosed()) return;
    left -= page.data.length;
    cursor = page.pagination.cursor;
  } while (cursor !== undefined && left > 0);
  await write(undefined);
  if (cursor !== undefined)
    await note(io, paint(io, io.stderr, "dim", "there are more; --limit says how many to show"));
}

/** Writes the rows of a page, and with `undefined` the end. */
type Writer<T> = (rows: readonly T[] | undefined) => Promise<void>;

function jsonWriter<T>(io: Io): Writer<T> {
  let written = 0;
  let isOpen = false;
  return async (rows) => {
    if (!isOpen) await io.stdout.write("[");
    isOpen = true;
    for (const row of rows ?? []) {
      if (io.stdout.isClosed()) return;
      await io.stdout.write(`${written++ > 0 ? "," : ""}\n${toJson(row)}`);
    }
    if (rows === undefined) await io.stdout.write("\n]\n");
  };
}

/** Columns are as wide as the first page needs, and its rows and later ones are cut where the terminal ends. */
function tableWriter<T>(io: Io, columns: Columns<T>): Writer<T> {
  const titles = Object.keys(columns);
  let widths: readonly number[] | undefined;
  return async (rows) => {
    if (rows === undefined) return widths === undefined ? note(io, "there are none") : undefined;
    const texts = rows.map((row) => titles.map((title) => oneLine(columns[title]?.(row) ?? "")));
    if (texts.length === 0) return;
    const isFirst = widths === undefined;
    const known = (widths ??= titles.map((title, i) =>
      Math.max(title.length, ...texts.map((cells) => cells[i]?.length ?? 0)),
    ));
    const lines = (isFirst ? [titles, ...texts] : texts).map((cells) =>
      fit(io, cells.map((cell, i) => cell.padEnd(known[i] ?? 0)).join(GAP)),
    );
    for (const line of lines) {
      if (io.stdout.isClosed()) return;
      await io.stdout.write(`${line}\n`);
    }
  };
}

function fit({ stdout: { columns = Infinity } }: Io, line: string): string {
  const text = line.trimEnd();
  return text.length > columns ? `${text.slice(0, Math.max(0, columns - 1))}…` : text;
}
