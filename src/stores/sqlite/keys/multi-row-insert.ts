/** Many rows by few statements. Knows nothing of what they are. */
import type { Handle, SqliteValue } from "../connection/handle.js";

/** Rows a statement: more gained nothing. */
export const ROWS = 32;

/** `(?, ?), (?, ?), …` for `rows` rows of `width` columns. */
export function marks(width: number, rows: number): string {
  const row = `(${Array<string>(width).fill("?").join(", ")})`;
  return Array<string>(rows).fill(row).join(", ");
}

/**
 * @param head the statement up to and with `VALUES`
 * @returns a function that inserts rows whose values lie one after another, `width` of them a row
 */
export function createManyRows(handle: Handle, head: string, width: number): (values: readonly SqliteValue[]) => void {
  const many = handle.prepare(`${head} ${marks(width, ROWS)}`);
  const single = handle.prepare(`${head} ${marks(width, 1)}`);
  return (values) => {
    const stretch = ROWS * width;
    const whole = values.length - (values.length % stretch);
    for (let start = 0; start < whole; start += stretch) many.run(...values.slice(start, start + stretch));
    for (let start = whole; start < values.length; start += width) single.run(...values.slice(start, start + width));
  };
}
