/** All side effects of the command line as an interface, so that tests run it in process. */

/** An output stream. */
export interface Output {
  /**
   * Resolves once the text is written, so that a slow reader applies backpressure. Rejects with a failure if standard
   * output cannot be written; what standard error cannot take is dropped.
   */
  write(text: string): Promise<void>;
  /** Whether its reader has left, so that nothing that is written is read: `… | head`. */
  isClosed(): boolean;
  readonly isTTY: boolean;
  /** Characters of a line of the terminal; absent: lines are as long as they are. */
  readonly columns?: number | undefined;
  /** The raw stream, for progress bars; absent: none are drawn. */
  readonly terminal?: NodeJS.WritableStream;
}

export interface Io {
  /** Data only. */
  readonly stdout: Output;
  /**
   * Writes a secret that is shown this once to standard output. Rejects with a failure also if the reader of the pipe
   * has left: nobody has seen it then.
   */
  reveal(text: string): Promise<void>;
  /** Progress, notes and errors. */
  readonly stderr: Output;
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The user's home directory, with the default config file. */
  readonly home: string;
  readonly fetch: typeof globalThis.fetch;
  /** Unix time, milliseconds. */
  now(): number;
  /** 0 ≤ x < 1. */
  random(): number;
  sleep(milliseconds: number): Promise<void>;
  /** Calls `listener` on SIGINT (Ctrl-C) or SIGTERM. @returns a function that removes the listener */
  onStop(listener: () => void): () => void;
}
