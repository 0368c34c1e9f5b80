/** What the command line touches of the world, handed down: tests run it in process. Types only. */

/** A stream of text towards people or programs. */
export interface Output {
  /** Waits while the reader is slow. */
  write(text: string): Promise<void>;
  readonly isTTY: boolean;
  /** The raw stream, for what draws by itself; absent: nothing draws. */
  readonly terminal?: NodeJS.WritableStream;
}

export interface Io {
  /** Data, and nothing else. */
  readonly stdout: Output;
  /** Progress, notes and faults. */
  readonly stderr: Output;
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The user's home directory: the default config file is there. */
  readonly home: string;
  readonly fetch: typeof globalThis.fetch;
  /** Unix time, milliseconds. */
  now(): number;
  /** 0 ≤ x < 1. */
  random(): number;
  sleep(milliseconds: number): Promise<void>;
  /** Calls `listener` for each wish to stop (Ctrl-C, or the system's), until the result is called. */
  onStop(listener: () => void): () => void;
}
