/**
 * Reads the log of spends that files of schema versions 3 and 4 have: entries of balances after a spend, newer than the
 * row. An empty entry means that all entries before it are in the rows.
 */
import { KeystileError } from "../../../contracts/errors.js";
import { type Handle, select } from "./handle.js";

/** Numbers per balance: key, remaining, period. Key 0 ends an entry. */
const WIDTH = 3;

/** Writes what the log has into the rows, and empties it. */
export function carryOverSpends(handle: Handle): void {
  const entries = select<{ balances: Uint8Array }>(handle, "SELECT balances FROM keystile_spends ORDER BY seq").all();
  const decoded = entries.map(({ balances }) => decode(balances));
  const current = decoded.slice(decoded.findLastIndex((balances) => balances.length === 0) + 1);
  const update = handle.prepare("UPDATE keystile_balances SET remaining = ?, period = ? WHERE n = ? AND unlimited = 0");
  for (const [n, remaining, period] of current.flat()) update.run(remaining, period, n);
  handle.exec("DELETE FROM keystile_spends");
}

/** @throws KeystileError STORE_INVALID: a number is not a balance; it is never rounded */
function decode({
  buffer,
  byteOffset,
  length,
}: Uint8Array): (readonly [n: number, remaining: number, period: number])[] {
  const view = new DataView(buffer, byteOffset, length);
  const number = (i: number) => view.getFloat64(i * Float64Array.BYTES_PER_ELEMENT);
  const balances: (readonly [number, number, number])[] = [];
  for (let i = 0; (i + WIDTH) * Float64Array.BYTES_PER_ELEMENT <= length && number(i) !== 0; i += WIDTH) {
    const balance = [number(i), number(i + 1), number(i + 2)] as const;
    if (!balance.every(Number.isSafeInteger) || balance[1] < 0)
      throw new KeystileError(
        "STORE_INVALID",
        "the file has a log of spends that does not hold whole numbers; restore it from a backup",
      );
    balances.push(balance);
  }
  return balances;
}
