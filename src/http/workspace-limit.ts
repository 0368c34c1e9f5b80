/** Request limit per workspace, off by default (contract 4.1-6, 8). */
import type { Limiter } from "../contracts/limiter.js";
import type { MaybePromise } from "../contracts/types.js";
import { checkOptions, integer } from "../lib/check-options.js";
import { LIMITER_OPTIONS, withFallback } from "../ratelimit/fallback.js";
import { memoryLimiter } from "../ratelimit/memory/limiter.js";
import { waitFor } from "../ratelimit/wait-time.js";

/** Request limit per workspace: `options.requestLimit` of the service. */
export interface RequestLimitOptions {
  /** Requests per window, 1…1_000_000_000. */
  readonly limit: number;
  /** Window, milliseconds, 1_000…2_592_000_000. */
  readonly duration: number;
  /**
   * Default: a `memoryLimiter()` for this limit alone, which holds for this process and ends with it. May be shared
   * with a verifier; the program closes it.
   */
  readonly limiter?: Limiter;
  /**
   * Nodes that share the limiter, 1…100_000, default 1: while it fails, each counts its share, `limit / nodes`, at
   * least one call.
   */
  readonly nodes?: number;
}

/** The result of counting a request. */
export interface RequestVerdict {
  readonly exceeded: boolean;
  /** Requests per window, as configured. */
  readonly limit: number;
  /** Whole requests left. */
  readonly remaining: number;
  /** Milliseconds until the whole limit is available again. */
  readonly reset: number;
  /** Milliseconds after which one request is allowed again; 0 unless exceeded. */
  readonly retryAfter: number;
}

/**
 * Creates the request limit: one token bucket per workspace.
 * @throws TypeError or RangeError naming the option
 */
export function createRequestLimit(options: RequestLimitOptions) {
  const checks = {
    limit: integer(1, 1_000_000_000),
    duration: integer(1_000, 2_592_000_000),
    limiter: LIMITER_OPTIONS.limiter,
    nodes: LIMITER_OPTIONS.nodes,
  };
  checkOptions(options, checks, "options.requestLimit");
  const { limit, duration, limiter, nodes = 1 } = options;
  for (const name of ["limit", "duration"] as const) {
    if (options[name] === undefined) throw new TypeError(`options.requestLimit.${name} must be given`);
  }
  const configured = { limit, duration };
  const local = memoryLimiter();
  const resilient = withFallback(limiter ?? local, { local, nodes });
  return Object.freeze({
    /**
     * Counts one request. If the limiter fails, this process counts its share of them instead.
     * @param now Unix time, milliseconds
     */
    take(workspaceId: string, now: number): MaybePromise<RequestVerdict> {
      const check = { bucket: `requests ${workspaceId}`, limit, duration, cost: 1, workspaceId, configured };
      const result = resilient.take([check], now);
      const toVerdict = ({ verdicts, shares }: Awaited<typeof result>): RequestVerdict => {
        const { exceeded, remaining, reset } = verdicts[0]!;
        // A limit is at least 1, so that one request always fits in time.
        const retryAfter = exceeded ? (waitFor(shares?.[0] ?? configured, 1, reset) as number) : 0;
        return { exceeded, limit, remaining, reset: Math.ceil(reset), retryAfter };
      };
      return result instanceof Promise ? result.then(toVerdict) : toVerdict(result);
    },
  });
}
