/** What the rate limits of each client, or of all, have granted: never above capacity and drain. */
import type { V2KeysVerifyKeyResponseData } from "../../src/contracts/types.js";
import type { Client } from "./client.js";
import { must } from "./violation.js";

interface Grants {
  tokens: number;
  /** The largest size that an answer told. */
  limit: number;
  perMs: number;
  /** Whoever took from it: their clocks, and their failures. */
  readonly clients: Set<Client>;
}

/** Tokens of the limit that is asked for once by one call: what is left tells how often it was taken. */
export const ONCE_LIMIT = 100;
/** Bounds of what answers show. */
const SHOWN = { limit: 1, duration: 1_000 };

/** The readings of a clock, by which buckets refill. */
export class Readings {
  readonly #readings = new Set<number>();

  note(now: number): void {
    this.#readings.add(now);
  }

  /**
   * The most that a bucket can have refilled. Calls in flight may take in any order, but a bucket never goes back: from
   * one reading to a later one it refills for the time between, and never beyond its capacity.
   */
  mostRefilled(limit: number, perMs: number): number {
    const readings = [...this.#readings].sort((a, b) => a - b);
    return readings.slice(1).reduce((sum, now, i) => sum + Math.min(limit, perMs * (now - readings[i]!)), 0);
  }
}

export class Limits {
  readonly #grants = new Map<string, Grants>();

  constructor(readonly isShared: boolean) {}

  /**
   * Counts the tokens that an answer acknowledges.
   * @param once the name of the limit that only this call asks for
   * @param bucketOf the bucket of the limit with this id: keys that replaced each other have one
   */
  note(
    client: Client,
    { code, ratelimits = [] }: V2KeysVerifyKeyResponseData,
    once: string | undefined,
    bucketOf: (id: string) => string,
  ): void {
    if (code !== "VALID" && code !== "USAGE_EXCEEDED") return;
    for (const { id, name, limit, duration, remaining } of ratelimits) {
      if (name === once) {
        must(remaining === ONCE_LIMIT - 1, "once", () => `a call took ${ONCE_LIMIT - remaining} times from its limit`);
        continue;
      }
      const bucket = bucketOf(id);
      const grants = this.#of(this.isShared ? bucket : `${client.name} ${bucket}`);
      grants.tokens++;
      grants.clients.add(client);
      grants.limit = Math.max(grants.limit, limit, SHOWN.limit);
      grants.perMs = Math.max(grants.perMs, limit / Math.max(duration, SHOWN.duration));
      assertBounded(name, grants);
    }
  }

  #of(bucket: string): Grants {
    let grants = this.#grants.get(bucket);
    if (grants === undefined) {
      grants = { tokens: 0, limit: 0, perMs: 0, clients: new Set() };
      this.#grants.set(bucket, grants);
    }
    return grants;
  }
}

function assertBounded(name: string, { tokens, limit, perMs, clients }: Grants): void {
  // While a shared limiter fails, each client enforces its share: a bucket of its own.
  const buckets = 1 + [...clients].filter((client) => client.faults > 0).length;
  if (tokens <= buckets * limit) return;
  let most = limit;
  for (const clock of new Set([...clients].map((client) => client.readings))) most += clock.mostRefilled(limit, perMs);
  must(tokens <= buckets * most + 1e-6, "limits", () => `"${name}" granted ${tokens} where ${buckets * most} fit`);
}
