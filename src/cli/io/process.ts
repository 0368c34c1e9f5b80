/** The real world as an `Io`, and the process around `main`. The one room of the command line that touches the process. */
import { homedir } from "node:os";
import { main } from "../main.js";
import { EXIT } from "./failures.js";
import type { Io, Output } from "./io.js";

/** What shells report of a process that Ctrl-C ended. */
const INTERRUPTED = 130;

/** Runs the command line of this process and sets its exit code. */
export async function runProcess(): Promise<void> {
  // `keystile … | head`: a reader that left is no fault, and no reason to leave an import or a server half done.
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
        // Whoever asks twice does not want to wait.
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
    // Absent where it is no terminal, whatever the types say.
    isTTY: stream.isTTY,
    // The callback comes once the text was handed to the system: nothing is lost at the end, and nothing heaps up.
    write: (text) => new Promise((resolve) => void stream.write(text, () => resolve())),
  };
}
