/**
 * Runs `main` with the `Io` of this process. The only module of the command line that uses `process` streams and
 * signals.
 */
import { homedir } from "node:os";
import { main } from "../main.js";
import { EXIT, failure } from "./failures.js";
import type { Io, Output } from "./io.js";
import { setTimeout } from "../../lib/timers.js";

/** The exit code that shells report for Ctrl-C. */
const INTERRUPTED = 130;
/**
 * Milliseconds within which signals count as one. A terminal sends Ctrl-C to all processes of a command, and `npm` and
 * `npx` pass theirs on; `timeout` signals its command and then the group of it.
 */
const SAME_SIGNAL = 300;

/** Runs the command line of this process and sets its exit code. */
export async function runProcess(): Promise<void> {
  // Without listeners these would end the process. `keystile … | head` closes the pipe, which must not interrupt an
  // import or a server; a full disk below a log must not either, and the log goes on when there is space again.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
  process.exitCode = await main(process.argv.slice(2), processIo());
}

function processIo(): Io {
  return {
    stdout: toOutput(process.stdout, assertWritten),
    reveal: toOutput(process.stdout, assertTaken).write,
    stderr: { ...toOutput(process.stderr, () => undefined), terminal: process.stderr },
    stdin: process.stdin,
    env: process.env,
    home: homedir(),
    fetch: (input, init) => globalThis.fetch(input, init),
    now: Date.now,
    random: Math.random,
    sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
    onStop(listener) {
      let stoppedAt: number | undefined;
      const stop = (): void => {
        if (stoppedAt === undefined) {
          stoppedAt = performance.now();
          listener();
          // A second one ends the process at once.
        } else if (performance.now() - stoppedAt > SAME_SIGNAL) process.exit(INTERRUPTED);
      };
      process.on("SIGINT", stop).on("SIGTERM", stop);
      return () => void process.off("SIGINT", stop).off("SIGTERM", stop);
    },
  };
}

/** Data that is not written fails the command. A reader that closed the pipe wants no more. */
function assertWritten(error: NodeJS.ErrnoException | null | undefined): void {
  if (!isLeft(error)) assertTaken(error);
}

const isLeft = (error: NodeJS.ErrnoException | null | undefined): boolean => error?.code === "EPIPE";

function assertTaken(error: NodeJS.ErrnoException | null | undefined): void {
  if (error) throw failure(EXIT.failed, `standard output cannot be written (${error.code ?? "unknown"})`);
}

/** @param check called with what a write failed with; may throw */
function toOutput(stream: NodeJS.WriteStream, check: (error: Error | null | undefined) => void): Output {
  let isClosed = false;
  return {
    isClosed: () => isClosed,
    // Despite its type, undefined if it is not a terminal.
    isTTY: stream.isTTY,
    get columns() {
      return (stream as { readonly columns?: number }).columns;
    },
    // The callback runs once the system has the text, so nothing is lost at exit and nothing is buffered without bound.
    async write(text) {
      const error = await new Promise<Error | null | undefined>((done) => void stream.write(text, done));
      isClosed ||= isLeft(error);
      check(error);
    },
  };
}
