/** A file of JSON lines, in ASCII, written and read in bounded memory. */
import { closeSync, openSync, readSync, writeSync } from "node:fs";

const LINES_A_WRITE = 10_000;
/** Bytes a read: text of 256 KB is memory mapped anew each time, which took 0.8 µs a line where this takes 0.2. */
const CHUNK = 1 << 15;

/** One line for each number below `count`. */
export function writeLines(path: string, count: number, make: (n: number) => unknown): void {
  const file = openSync(path, "w");
  for (let first = 0; first < count; first += LINES_A_WRITE) {
    const lines = Array.from(
      { length: Math.min(LINES_A_WRITE, count - first) },
      (_, i) => `${JSON.stringify(make(first + i))}\n`,
    );
    writeSync(file, lines.join(""));
  }
  closeSync(file);
}

/** The lines, about a hundred at a time. */
export function* readLines(path: string): Generator<readonly string[]> {
  const file = openSync(path, "r");
  const buffer = Buffer.alloc(CHUNK);
  let rest = "";
  try {
    for (let length = readSync(file, buffer); length > 0; length = readSync(file, buffer)) {
      // ASCII: a chunk never ends within a character.
      const lines = (rest + buffer.toString("latin1", 0, length)).split("\n");
      rest = lines.pop() ?? "";
      yield lines;
    }
  } finally {
    closeSync(file);
  }
}
