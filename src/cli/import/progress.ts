/** A progress bar, where there is a terminal to draw it on. */
import { clearLine, cursorTo } from "node:readline";
import type { Io } from "../io/io.js";

export interface Progress {
  /** @param done so far */
  update(done: number): void;
  /** Removes the bar; what is written to the terminal before that may be drawn over. */
  stop(): void;
}

const NONE: Progress = { update: () => undefined, stop: () => undefined };
const BAR_LENGTH = 40;
/** Milliseconds between two drawings. */
const REDRAW_AFTER = 100;

/**
 * @param what is being done, one word
 * @param total keys in all; unknown: 0
 */
export function startProgress(io: Io, what: string, total: number): Progress {
  const { terminal, isTTY } = io.stderr;
  return terminal === undefined || !isTTY || io.env["TERM"] === "dumb"
    ? NONE
    : drawProgress(terminal, what, total, io.now);
}

/** The bar itself. The cursor stays visible and the terminal's settings as they are: a killed process could not restore them. */
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
    // A line that wraps could not be drawn over.
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
