/**
 * The Redis of `keystile serve --limiter redis://…`, with whichever client is installed. Nothing says its address,
 * which may hold a password.
 */
import type { RedisClient } from "../ratelimit/redis/index.js";
import { EXIT, failure } from "./io/failures.js";
import { clearTimeout, setTimeout } from "../lib/timers.js";

/** A connection that comes back by itself. */
export interface RedisConnection {
  readonly client: RedisClient;
  /** Why it could not be reached so far, such as ECONNREFUSED; undefined: it was. */
  readonly unreachable: string | undefined;
  close(): void;
}

interface Opened {
  readonly client: RedisClient;
  /** Resolves once commands are answered. */
  readonly ready: Promise<unknown>;
  close(): void;
}

/** Opens a connection. @param onError told of every error of the connection */
export type OpenRedis = (url: string, onError: (error: unknown) => void) => Promise<Opened>;

/** Milliseconds until a server that is not there yet counts as out of reach. */
const MAX_START = 2_000;
/** Milliseconds between attempts, at most: the limiter is to be back within a second of its server. */
const MAX_PAUSE = 500;
const pauseAfter = (attempts: number): number => Math.min((attempts + 1) * 50, MAX_PAUSE);

/**
 * The clients by name, the preferred one first. Without a connection their commands fail at once and are not queued.
 */
export const CLIENTS: Readonly<Record<string, OpenRedis>> = {
  async ioredis(url, onError) {
    const { Redis } = await import("ioredis");
    const client = new Redis(url, { retryStrategy: pauseAfter, enableOfflineQueue: false, lazyConnect: true });
    const ready = new Promise((resolve) => client.on("error", onError).once("ready", resolve));
    // What it rejects with is told as an error as well.
    client.connect().catch(() => undefined);
    return { client, ready, close: () => client.disconnect() };
  },
  async redis(url, onError) {
    const { createClient } = await import("redis");
    const client = createClient({ url, disableOfflineQueue: true, socket: { reconnectStrategy: pauseAfter } });
    const ready = new Promise((resolve) => client.on("error", onError).once("ready", resolve));
    client.connect().catch(() => undefined);
    return { client, ready, close: () => client.destroy() };
  },
};

/**
 * Connects to a Redis. One that cannot be reached is tried again and again, so that a service starts without it.
 * @param clients those to try, by package, except in tests
 * @throws a failure if no client is installed, or the server refuses the user or password
 */
export async function connectRedis(
  url: string,
  clients: Readonly<Record<string, OpenRedis>> = CLIENTS,
): Promise<RedisConnection> {
  let unreachable: string | undefined = "no answer";
  let isRefused: (code: string) => void = () => undefined;
  const refused = new Promise<string>((resolve) => (isRefused = resolve));
  const { client, ready, close } = await open(url, clients, (error) => {
    unreachable = codeOf(error) ?? unreachable;
    if (REFUSALS.includes(unreachable ?? "")) isRefused(unreachable as string);
  });
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, MAX_START)));
  const refusal = await Promise.race([ready.then(() => (unreachable = undefined)), refused, late]);
  clearTimeout(timer);
  if (typeof refusal !== "string") return { client, unreachable, close };
  close();
  throw failure(EXIT.failed, `--limiter: Redis refuses the user or password (${refusal})`);
}

async function open(
  url: string,
  clients: Readonly<Record<string, OpenRedis>>,
  onError: (error: unknown) => void,
): Promise<Opened> {
  for (const connect of Object.values(clients)) {
    try {
      return await connect(url, onError);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    }
  }
  throw failure(EXIT.failed, `--limiter redis://… needs a client of Redis; run: npm install ioredis`);
}

const REFUSALS = ["WRONGPASS", "NOAUTH", "NOPERM"];

/** What an error is called by the system or by Redis. Its message may contain anything. */
export function codeOf(error: unknown): string | undefined {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  if (typeof code === "string" && /^[A-Z_]+$/.test(code)) return code;
  const word = typeof message === "string" ? message.split(" ")[0] : undefined;
  return REFUSALS.find((refusal) => refusal === word);
}
