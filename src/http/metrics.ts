/**
 * Metrics of the service in the Prometheus text format. Labels are names of operations and codes, nothing from a
 * request.
 */
import type { StoreHealth } from "../contracts/health.js";
import type { LimiterCounters } from "../contracts/limiter.js";
import { family, head, storeFamilies, verifierFamilies } from "../verify/metrics-text.js";
import type { VerifierCounters } from "../verify/verifier.js";

/** Upper bounds of the duration buckets, seconds. */
const BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

interface Histogram {
  /** Requests per bucket, not cumulative; the last is for longer durations. */
  readonly counts: number[];
  sum: number;
}

/** Label values come from fixed tables, so clients cannot make the maps grow. */
/** Counters of the service. */
export function createMetrics() {
  const requests = new Map<string, number>();
  const outcomes = new Map<string, number>();
  const durations = new Map<string, Histogram>();
  let inFlight = 0;
  return {
    begin: (): void => void inFlight++,
    /** @param code of the error, or outcome of the verification; empty for any other success */
    end(operation: string, status: number, code: string, ms: number): void {
      inFlight--;
      increment(requests, `operation="${operation}",status="${status}"`);
      if (status === 200 && code !== "") increment(outcomes, `code="${code}"`);
      observe(durations, operation, ms / 1_000);
    },
    /**
     * The text of `/metrics`.
     * @param counters of the verifier, and entries of the audit trail that its listener did not get; `undefined`: it
     *   has none
     * @param namespaces counters of the limiter of namespaces; `undefined`: it is not the service's own
     * @param health of the store; `undefined`: it tells none
     * @param heldBytes what requests hold of the memory budget
     */
    read: (
      counters: VerifierCounters & { readonly auditsDropped?: number | undefined },
      namespaces: LimiterCounters | undefined,
      health: StoreHealth | undefined,
      heldBytes: number,
    ): string => {
      const { auditsDropped } = counters;
      return [
        ...family("keystile_requests_total", "Requests answered.", [...requests]),
        ...family("keystile_verifications_total", "Verifications by outcome.", [...outcomes]),
        ...family("keystile_requests_in_flight", "Requests being answered.", [["", inFlight]]),
        ...family("keystile_requests_held_bytes", "Bytes of the memory budget that requests hold.", [["", heldBytes]]),
        ...(auditsDropped === undefined
          ? []
          : family("keystile_audits_dropped_total", "Entries of the audit trail dropped.", [["", auditsDropped]])),
        ...verifierFamilies(counters, namespaces),
        ...(health === undefined ? [] : storeFamilies(health)),
        ...histogram("keystile_request_duration_seconds", "Time from the request to its answer.", durations),
        "",
      ].join("\n");
    },
  };
}

function increment(counts: Map<string, number>, labels: string): void {
  counts.set(labels, (counts.get(labels) ?? 0) + 1);
}

function observe(durations: Map<string, Histogram>, operation: string, seconds: number): void {
  let times = durations.get(operation);
  if (times === undefined)
    durations.set(operation, (times = { counts: new Array<number>(BOUNDS.length + 1).fill(0), sum: 0 }));
  let bucket = 0;
  while (bucket < BOUNDS.length && seconds > (BOUNDS[bucket] ?? 0)) bucket++;
  times.counts[bucket] = (times.counts[bucket] ?? 0) + 1;
  times.sum += seconds;
}

function histogram(name: string, help: string, durations: ReadonlyMap<string, Histogram>): string[] {
  const lines = head(name, "histogram", help);
  for (const [operation, { counts, sum }] of durations) {
    const label = `operation="${operation}"`;
    let total = 0;
    counts.forEach((count, i) => {
      total += count;
      lines.push(`${name}_bucket{${label},le="${BOUNDS[i] ?? "+Inf"}"} ${total}`);
    });
    lines.push(`${name}_sum{${label}} ${sum}`, `${name}_count{${label}} ${total}`);
  }
  return lines;
}
