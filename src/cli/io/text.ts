/** Text for terminals: colours if wanted, and no control characters from untrusted text. */
import { styleText } from "node:util";
import type { Io, Output } from "./io.js";

/** Columns that a text gets at least, however narrow the terminal. */
const LEAST_WIDTH = 20;

export type Colour = "red" | "green" | "yellow" | "dim";

/** @returns `text` in colour if the output is a terminal, `NO_COLOR` is empty or unset and `TERM` is not `dumb` */
export function paint(io: Io, output: Output, colour: Colour, text: string): string {
  const isPlain = !output.isTTY || (io.env["NO_COLOR"] ?? "") !== "" || io.env["TERM"] === "dumb";
  // Without this, later versions of Node check stdout, whichever output this is.
  return isPlain ? text : styleText(colour, text, { validateStream: false });
}

/**
 * Replaces control characters with `?`: a server's text must not move the cursor or hide text. Tabs and line feeds
 * stay.
 */
export function stripControlChars(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "?");
}

/** {@link stripControlChars} for a line of a listing: what ends a line or separates its columns is replaced too. */
export function oneLine(text: string): string {
  return stripControlChars(text).replace(/[\t\n\u2028\u2029]/g, "?");
}

/** The rest of a line, from the column `indent`: where a terminal ends it goes on below, if possible after a space. */
export function hang({ stdout: { columns = Infinity } }: Io, indent: number, text: string): string {
  const width = Math.max(columns - indent, LEAST_WIDTH);
  if (text.length <= width) return text;
  const pieces = text.match(new RegExp(`.{1,${width}}(?:(?<=[ ,])|$)|.{${width}}`, "gu")) ?? [];
  return pieces.map((piece) => piece.trimEnd()).join(`\n${" ".repeat(indent)}`);
}

/** JSON with control characters escaped, so that its value stays the same. */
export function toJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent).replace(
    /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Indented JSON. */
export const pretty = (value: unknown): string => toJson(value, 2);

/** Formats a number in groups of three: `1,000,000`. */
export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Writes a warning to stderr, in yellow on a terminal. */
export function warn(io: Io, text: string): Promise<void> {
  return note(io, paint(io, io.stderr, "yellow", `warning: ${text}`));
}

/** Writes a line to stderr. */
export function note(io: Io, text: string): Promise<void> {
  return io.stderr.write(`${text}\n`);
}
