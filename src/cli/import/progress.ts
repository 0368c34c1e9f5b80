/** A progress bar, if stderr is a terminal. */
import { clearLine, cursorTo } from "node:readline";
import type { Io } from "../io/io.js";

export interface Progress {
  /** @param done so far */
  update(done: number): void;
  /** Removes the bar. Output written to the terminal before that may be overwritten. */
  stop(): void;
}

const NONE: Progress = { update: () => undefined, stop: () => undefined };
const BAR_LENGTH = 40;
/** Minimum milliseconds between two redraws. */
const REDRAW_AFTER = 100;

/**
 * @param what one word, such as "reading"
 * @param total number of keys; 0: unknown
 */
export function startProgress(io: Io, what: string, total: number): Progress {
  const { terminal, isTTY } = io.stderr;
  return terminal === undefined || !isTTY || io.env["TERM"] === "dumb"
    ? NONE
    : drawProgress(terminal, what, total, io.now);
}

/**
 * The bar itself. It does not hide the cursor or change terminal settings, which a killed process could not restore.
 */
export function drawProgress(
  terminal: NodeJS.WritableStream & { readonly columns?: number },
  what: string,
  total: number,
  now: () => number,
): Progress {
  const began = now();
  let drawn = began;
  const draw = (done: number): void => {
    const text = total > 0 ? `${what} ${describe(done, total, drawn - began)}` : `${what} ${done}`;
    cursorTo(terminal, 0);
    // A wrapped line could not be overwritten.
    terminal.write(text.slice(0, (terminal.columns ?? 80) - 1));
    clearLine(terminal, 1);
  };
  draw(0);
  return {
    update(done) {
      const instant = now();
      if (Math.abs(instant - drawn) < REDRAW_AFTER) return;
      drawn = instant;
      draw(done);
    },
    stop() {
      cursorTo(terminal, 0);
      clearLine(terminal, 1);
    },
  };
}

function describe(done: number, total: number, elapsed: number): string {
  const share = Math.min(done / total, 1);
  const bar = "█".repeat(Math.floor(share * BAR_LENGTH)).padEnd(BAR_LENGTH, "░");
  const left = share > 0 ? `, ${Math.ceil((elapsed * (1 - share)) / share / 1_000)} s left` : "";
  return `${bar} ${done}/${total} ${Math.floor(share * 100)}%${left}`;
}
