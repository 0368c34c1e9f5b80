/** Reads CSV as RFC 4180 has it, row by row: cells by the column's name, `""` for a quote within quotes. */
import { usage } from "../io/failures.js";
import { wholeLinesOf } from "../io/input.js";
import type { SourceRow } from "./values.js";

/** A cell without quotes, or a quoted one that ends in this line, and what follows it. */
const CELL = /(?:"([^"]*(?:""[^"]*)*)"|([^",]*))(,|$)/y;
/** A quoted cell that goes on in the next line. */
const OPENING = /"([^"]*(?:""[^"]*)*)$/y;
/** The rest of a quoted cell that ends in this line, or goes on. */
const CLOSING = /([^"]*(?:""[^"]*)*)"(,|$)/y;
const GOING_ON = /^[^"]*(?:""[^"]*)*$/;
/** Characters of a row: as of a line. */
const MAX_ROW = 1_048_576;

/** A row that is being read. */
interface Row {
  readonly line: number;
  readonly cells: string[];
  /** Of a quoted cell that is not closed: where it began, and its lines so far. */
  open?: { readonly column: number; readonly lines: string[] } | undefined;
  length: number;
  problem?: string;
}

/**
 * The rows below the header as objects of texts; empty cells are left out. A row that is not well formed comes as a
 * problem with its column, and the next line begins a new one.
 * @param flag for messages
 * @throws failure 2: the source cannot be read; its first line is no header
 */
export async function* readCsv(source: AsyncIterable<Uint8Array>, flag: string): AsyncIterable<SourceRow> {
  let header: readonly string[] | undefined;
  for await (const { line, cells, problem } of rowsOf(source)) {
    if (header === undefined) {
      if (problem !== undefined) throw usage(`${flag}: line ${line}: ${problem}`);
      header = toHeader(cells, flag);
    } else yield { number: line, ...(problem === undefined ? toValue(header, cells) : { problem }) };
  }
}

async function* rowsOf(source: AsyncIterable<Uint8Array>): AsyncIterable<Row> {
  let row: Row | undefined;
  for await (const { line, text = "", problem } of wholeLinesOf(source)) {
    if (problem !== undefined) yield { ...(row ?? { line, length: 0 }), cells: [], problem };
    if (problem !== undefined || (row === undefined && text.trim() === "")) {
      row = undefined;
      continue;
    }
    row ??= { line, cells: [], length: 0 };
    addLine(row, text.endsWith("\r") ? text.slice(0, -1) : text);
    if (row.open !== undefined && row.problem === undefined) continue;
    yield row;
    row = undefined;
  }
  if (row !== undefined)
    yield { ...row, problem: `column ${row.open?.column ?? 1}: its quotation mark is never closed` };
}

/** Takes one more line into a row, which goes on if a cell of it is open then. */
function addLine(row: Row, text: string): void {
  let at = 0;
  const { open } = row;
  row.length += text.length;
  if (row.length > MAX_ROW) row.problem = "more than 1 MiB; is a quotation mark not closed?";
  else if (open !== undefined) {
    const rest = match(CLOSING, text, 0);
    if (rest === undefined) {
      if (GOING_ON.test(text)) open.lines.push(text);
      else
        row.problem = `column ${text.indexOf('"') + 1} of its last line: there is text after the closing quotation mark`;
      return;
    }
    row.cells.push(unquoted([...open.lines, rest[1] ?? ""].join("\n")));
    row.open = undefined;
    if (rest[2] === "") return;
    at = rest[0].length;
  }
  while (row.problem === undefined) {
    const cell = match(CELL, text, at);
    if (cell === undefined) {
      openCell(row, text, at);
      return;
    }
    row.cells.push(cell[1] === undefined ? (cell[2] ?? "") : unquoted(cell[1]));
    if (cell[3] === "") return;
    at += cell[0].length;
  }
}

function openCell(row: Row, text: string, at: number): void {
  const opening = match(OPENING, text, at);
  if (opening !== undefined) row.open = { column: at + 1, lines: [opening[1] ?? ""] };
  else if (text[at] === '"') row.problem = `column ${at + 1}: there is text after the closing quotation mark`;
  else row.problem = `column ${text.indexOf('"', at) + 1}: a quotation mark in a cell that does not begin with one`;
}

function match(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? undefined;
}

const unquoted = (text: string): string => text.replaceAll('""', '"');

/** A name that could be a hash, of a file without a header, is not repeated. */
function toHeader(cells: readonly string[], flag: string): readonly string[] {
  const names = cells.map((cell) => cell.trim());
  names.forEach((name, i) => {
    if (!/^[A-Za-z_][\w.]{0,63}$/.test(name))
      throw usage(`${flag}: line 1: column ${i + 1} has no name; CSV begins with a header`);
    if (names.indexOf(name) !== i) throw usage(`${flag}: line 1: column ${i + 1} has the name of another`);
  });
  return names;
}

function toValue(header: readonly string[], cells: readonly string[]): Pick<SourceRow, "value" | "problem"> {
  if (cells.length !== header.length) return { problem: `has ${cells.length} cells, and the header ${header.length}` };
  return { value: Object.fromEntries(header.flatMap((name, i) => (cells[i] === "" ? [] : [[name, cells[i]]]))) };
}
