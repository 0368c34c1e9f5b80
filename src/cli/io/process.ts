/**
 * Runs `main` with the `Io` of this process. The only module of the command line that uses `process` streams and
 * signals.
 */
import { homedir } from "node:os";
import { main } from "../main.js";
import { EXIT } from "./failures.js";
import type { Io, Output } from "./io.js";

/** The exit code that shells report for Ctrl-C. */
const INTERRUPTED = 130;

/** Runs the command line of this process and sets its exit code. */
export async function runProcess(): Promise<void> {
  // `keystile … | head`: a reader that closed the pipe is not an error, and must not interrupt an import or a server.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", ({ code }: NodeJS.ErrnoException) => {
      if (code !== "EPIPE") process.exit(EXIT.failed);
    });
  }
  process.exitCode = await main(process.argv.slice(2), processIo());
}

function processIo(): Io {
  return {
    stdout: toOutput(process.stdout),
    stderr: { ...toOutput(process.stderr), terminal: process.stderr },
    stdin: process.stdin,
    env: process.env,
    home: homedir(),
    fetch: (input, init) => globalThis.fetch(input, init),
    now: Date.now,
    random: Math.random,
    sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)),
    onStop(listener) {
      let isStopping = false;
      const stop = (): void => {
        // A second signal ends the process at once.
        if (isStopping) process.exit(INTERRUPTED);
        isStopping = true;
        listener();
      };
      process.on("SIGINT", stop).on("SIGTERM", stop);
      return () => void process.off("SIGINT", stop).off("SIGTERM", stop);
    },
  };
}

function toOutput(stream: NodeJS.WriteStream): Output {
  return {
    // Despite its type, undefined if it is not a terminal.
    isTTY: stream.isTTY,
    // The callback runs once the system has the text, so nothing is lost at exit and nothing is buffered without bound.
    write: (text) => new Promise((resolve) => void stream.write(text, () => resolve())),
  };
}
