/** The command line in process: its output as text, its fetch and its clock in the test's hands. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { Io } from "../../src/cli/io/io.js";
import { main } from "../../src/cli/main.js";

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly env?: Io["env"];
  readonly home?: string;
  readonly stdin?: string | readonly Uint8Array[];
  readonly fetch?: Io["fetch"];
  readonly isTTY?: boolean;
  /** Of the terminal. */
  readonly columns?: number;
  /** What a progress bar is drawn on. */
  readonly terminal?: NodeJS.WritableStream;
  readonly now?: () => number;
  /** Gets what would stop the process. */
  readonly onStop?: Io["onStop"];
  /** Told of every wait, which takes no time. */
  readonly onSleep?: (milliseconds: number) => void;
  /** Texts after which the reader of standard output leaves. */
  readonly leavesAfter?: number;
  /** Told of everything as it is written. */
  readonly onWrite?: (text: string) => void;
}

/** A root key as far as the command line can tell. */
export const ROOT_KEY = "root_canary7Hq2Zx9";

/** Runs one command line. */
export async function run(argv: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const {
    env = {},
    home = "/nonexistent",
    isTTY = false,
    onWrite,
    stdin = [],
    leavesAfter = Infinity,
    columns,
  } = options;
  let written = 0;
  let stdout = "";
  let stderr = "";
  const bytes = typeof stdin === "string" ? [new TextEncoder().encode(stdin)] : stdin;
  const write: Io["stdout"]["write"] = async (text) => void ((stdout += text), onWrite?.(text), written++);
  const io: Io = {
    stdout: { isTTY, columns, write, isClosed: () => written >= leavesAfter },
    reveal: write,
    stderr: {
      isTTY,
      isClosed: () => false,
      write: async (text) => void ((stderr += text), onWrite?.(text)),
      ...(options.terminal && { terminal: options.terminal }),
    },
    stdin: (async function* () {
      yield* bytes;
    })(),
    env,
    home,
    fetch: options.fetch ?? (() => Promise.reject(new Error("no request was expected"))),
    now: options.now ?? Date.now,
    random: () => 0.5,
    sleep: async (milliseconds) => options.onSleep?.(milliseconds),
    onStop: options.onStop ?? (() => () => undefined),
  };
  const code = await main(argv, io);
  return { code, stdout, stderr };
}

/** As {@link run}, with a root key in the environment. */
export function runAs(rootKey: string, argv: readonly string[], options: RunOptions = {}): Promise<Ran> {
  return run(argv, { ...options, env: { KEYSTILE_ROOT_KEY: rootKey, ...options.env } });
}

/** One request as a fake server saw it. */
export interface Seen {
  readonly url: string;
  readonly method: string | undefined;
  readonly authorization: string | undefined;
  readonly body: unknown;
  /** Of the header; absent: it was not sent. */
  readonly idempotencyKey?: string | undefined;
}

export interface Reply {
  readonly status?: number;
  /** Becomes the `data` of an envelope. */
  readonly data?: unknown;
  readonly pagination?: object;
  readonly requestId?: string;
  /** Becomes the whole body instead. */
  readonly text?: string;
  readonly error?: object;
  readonly headers?: Record<string, string>;
}

/** A server that answers as it is told; what it cannot answer is a network that fails. */
export function fakeServer(answer: (seen: Seen, count: number) => Reply | Error): {
  readonly seen: Seen[];
  readonly fetch: Io["fetch"];
} {
  const seen: Seen[] = [];
  const fetch: Io["fetch"] = async (input, init) => {
    const headers = new Headers(init?.headers);
    if (init?.redirect !== "manual") throw new Error("a redirect would take the root key elsewhere");
    const one: Seen = {
      url: input as string,
      method: init?.method,
      authorization: headers.get("authorization") ?? undefined,
      body: typeof init?.body === "string" ? (JSON.parse(init.body) as unknown) : undefined,
      idempotencyKey: headers.get("idempotency-key") ?? undefined,
    };
    seen.push(one);
    const reply = answer(one, seen.length);
    if (reply instanceof Error) throw reply;
    const { status = 200, data = {}, pagination, requestId = `req_${seen.length}`, error } = reply;
    const meta = { requestId };
    const body = error === undefined ? { meta, data, ...(pagination && { pagination }) } : { meta, error };
    return new Response(reply.text ?? JSON.stringify(body), {
      status,
      ...(reply.headers && { headers: reply.headers }),
    });
  };
  return { seen, fetch };
}

/** A folder of this test file, removed after it. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "keystile-cli-"));
  afterAll(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export interface Served {
  readonly url: string;
  /** Empty unless this was the first start. */
  readonly rootKey: string;
  readonly apiId: string;
  /** What was printed once the server listened. */
  readonly banner: string;
  /** What was printed so far. */
  output(): string;
  /** Sends what would stop the process, and waits for the end. */
  stop(): Promise<Ran>;
}

/** The first root key, which a server shows on a terminal, and writes to a file elsewhere; empty: it made none. */
export function rootKeyOf(banner: string): string {
  const shown = /^root key +(.*)$/m.exec(banner)?.[1] ?? "";
  return shown === "" || shown.startsWith("root_") ? shown : readFileSync(shown, "utf8").trimEnd();
}

/** Starts `keystile serve` in process, on a free port. */
export async function serve(
  db: string | undefined,
  more: readonly string[] = [],
  { isTTY = false, env = {} }: Pick<RunOptions, "isTTY" | "env"> = {},
): Promise<Served> {
  let stop: () => void = () => undefined;
  let banner = "";
  let ready: () => void = () => undefined;
  const listens = new Promise<void>((resolve) => (ready = resolve));
  const ending = run(["serve", ...(db === undefined ? [] : ["--db", db, "--port", "0"]), ...more], {
    isTTY,
    env,
    onStop(listener) {
      stop = listener;
      return () => undefined;
    },
    onWrite(text) {
      banner += text;
      if (text.startsWith("keystile serves")) ready();
    },
  });
  await Promise.race([listens, ending.then(({ stderr }) => Promise.reject(new Error(`serve ended: ${stderr}`)))]);
  return {
    url: /http:\S+/.exec(banner)?.[0] ?? "",
    rootKey: rootKeyOf(banner),
    apiId: /^API +(\S+)/m.exec(banner)?.[1] ?? "",
    banner,
    output: () => banner,
    stop() {
      stop();
      return ending;
    },
  };
}
