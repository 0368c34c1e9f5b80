/** A progress bar, where there is a terminal to draw it on. The one door of cli-progress. */
import cliProgress from "cli-progress";
import type { Io } from "./io.js";

export interface Progress {
  /** @param done keys so far */
  update(done: number): void;
  /** Ends the drawing; what is written to stderr before that may be drawn over. */
  stop(): void;
}

const NONE: Progress = { update: () => undefined, stop: () => undefined };

/**
 * @param total keys in all; unknown: 0
 * @param what is being done, one word
 */
export function startProgress(io: Io, what: string, total: number): Progress {
  const { terminal, isTTY } = io.stderr;
  if (terminal === undefined || !isTTY || io.env["TERM"] === "dumb") return NONE;
  const format = total > 0 ? `${what} {bar} {value}/{total} {percentage}% {eta_formatted} left` : `${what} {value}`;
  const bar = new cliProgress.SingleBar({
    format,
    stream: terminal,
    // The cursor and the wrapping stay as they are: a process that is stopped at once could not put them back.
    hideCursor: false,
    linewrap: true,
    clearOnComplete: true,
    gracefulExit: false,
    barCompleteChar: "█",
    barIncompleteChar: "░",
  });
  bar.start(total, 0);
  return { update: (done) => bar.update(done), stop: () => bar.stop() };
}
