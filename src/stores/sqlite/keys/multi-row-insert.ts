/** Inserts many rows with few statements. */
import type { Handle, SqliteValue } from "../connection/handle.js";

/** Rows per statement: more gained nothing. */
const ROWS = 32;

/** Rows of `width` columns per statement, where a handle takes so many values. */
export function rowsOf({ maxValues = Infinity }: Handle, width: number): number {
  return Math.min(ROWS, Math.floor(maxValues / width));
}

/** `(?, ?), (?, ?), …` for `rows` rows of `width` columns. */
export function marks(width: number, rows: number): string {
  const row = `(${Array<string>(width).fill("?").join(", ")})`;
  return Array<string>(rows).fill(row).join(", ");
}

/**
 * @param head the statement up to and including `VALUES`
 * @returns a function that inserts rows, given as a flat list with `width` values per row
 */
export function createManyRows(handle: Handle, head: string, width: number): (values: readonly SqliteValue[]) => void {
  const rows = rowsOf(handle, width);
  const many = handle.prepare(`${head} ${marks(width, rows)}`);
  const single = handle.prepare(`${head} ${marks(width, 1)}`);
  return (values) => {
    const chunk = rows * width;
    const whole = values.length - (values.length % chunk);
    for (let start = 0; start < whole; start += chunk) many.run(...values.slice(start, start + chunk));
    for (let start = whole; start < values.length; start += width) single.run(...values.slice(start, start + width));
  };
}
