/** How many requests a workspace may make. Spec §4.1-6, §8, ruling F5: off unless a shell is told to ask. Knows no HTTP. */
import type { Limiter } from "../contracts/limiter.js";
import type { MaybePromise } from "../contracts/types.js";
import { checkOptions, integer } from "../lib/check-options.js";
import { LIMITER_OPTIONS, withFallback } from "../ratelimit/fallback.js";
import { memoryLimiter } from "../ratelimit/memory/limiter.js";

/** How many requests a workspace may make; `options.requestLimit` of the service. */
export interface RequestLimitOptions {
  /** Requests a window, 1…1_000_000_000. */
  readonly limit: number;
  /** Window, milliseconds, 1…2_592_000_000. */
  readonly duration: number;
  /** Default: a `memoryLimiter()` of its own. May be shared with a verifier; the program closes it. */
  readonly limiter?: Limiter;
}

/** Whether a request may go on, and what its sender may be told. */
export interface RequestVerdict {
  readonly exceeded: boolean;
  /** Requests a window, as configured. */
  readonly limit: number;
  /** Whole requests left. */
  readonly remaining: number;
  /** Milliseconds until all of the limit is there again. */
  readonly reset: number;
  /** Milliseconds after which one request fits again; 0 unless exceeded. */
  readonly retryAfter: number;
}

/** Counts the requests of each workspace. */
export interface RequestLimit {
  /**
   * Takes one request.
   * @param now Unix time, milliseconds
   * @see ruling F5 · a limiter that cannot answer counts in this process instead (ruling C7)
   */
  take(workspaceId: string, now: number): MaybePromise<RequestVerdict>;
}

/**
 * Makes the request limit of workspaces: a token bucket each (ruling C2).
 * @throws TypeError or RangeError naming the option
 */
export function createRequestLimit(options: RequestLimitOptions): RequestLimit {
  const checks = {
    limit: integer(1, 1_000_000_000),
    duration: integer(1, 2_592_000_000),
    limiter: LIMITER_OPTIONS.limiter,
  };
  checkOptions(options, checks, "options.requestLimit");
  const { limit, duration, limiter } = options;
  for (const name of ["limit", "duration"] as const) {
    if (options[name] === undefined) throw new TypeError(`options.requestLimit.${name} must be given`);
  }
  const local = memoryLimiter();
  const fallible = withFallback(limiter ?? local, { local });
  // A bucket refills one request in this time, so a request that was refused fits after it at the latest.
  const retryAfter = Math.ceil(duration / limit);
  return Object.freeze({
    take(workspaceId: string, now: number) {
      const answer = fallible.take([{ bucket: `requests ${workspaceId}`, limit, duration, cost: 1 }], now);
      const toVerdict = ({ verdicts }: Awaited<typeof answer>): RequestVerdict => {
        const { exceeded, remaining, reset } = verdicts[0]!;
        return { exceeded, limit, remaining, reset, retryAfter: exceeded ? retryAfter : 0 };
      };
      return answer instanceof Promise ? answer.then(toVerdict) : toVerdict(answer);
    },
  });
}
