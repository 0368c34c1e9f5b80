/**
 * Metrics of the service in the Prometheus text format. Labels are names of operations and codes, nothing from a
 * request.
 */
import type { StoreCounters, StoreHealth } from "../contracts/health.js";
import type { LimiterCounters } from "../contracts/limiter.js";
import type { VerifierCounters } from "../verify/verifier.js";

/** Upper bounds of the duration buckets, seconds. */
const BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

interface Histogram {
  /** Requests per bucket, not cumulative; the last is for longer durations. */
  readonly counts: number[];
  sum: number;
}

/** Counters of the service. */
export interface Metrics {
  begin(): void;
  /** @param code of the error, or outcome of the verification; empty for any other success */
  end(operation: string, status: number, code: string, ms: number): void;
  /**
   * The text of `/metrics`.
   * @param counters of the verifier, and entries of the audit trail that its listener did not get; `undefined`: it has
   *   none
   * @param namespaces counters of the limiter of namespaces; `undefined`: it is not the service's own
   * @param health of the store; `undefined`: it tells none
   * @param heldBytes what requests hold of the memory budget
   */
  read(
    counters: VerifierCounters & { readonly auditsDropped?: number | undefined },
    namespaces: LimiterCounters | undefined,
    health: StoreHealth | undefined,
    heldBytes: number,
  ): string;
}

/** What of a store's health is shown. Counters start again with the process. */
const STORE_FAMILIES = {
  walBytes: ["wal_bytes", "gauge", "Bytes of the store's write-ahead log."],
  checkpoints: ["checkpoints_total", "counter", "Times that the log was carried over as a whole."],
  lockWaits: ["lock_waits_total", "counter", "Times that calls had to wait for a locked file."],
  lockWaitMs: ["lock_wait_ms_total", "counter", "Milliseconds for which the file was locked by others."],
  busyErrors: ["busy_errors_total", "counter", "Calls that failed with STORE_BUSY."],
  failedWrites: ["failed_writes_total", "counter", "Transactions that failed on the disk."],
  failedSyncs: ["failed_syncs_total", "counter", "Transactions that failed in fsync."],
  failedReturns: ["failed_returns_total", "counter", "Returns of leased credits that failed."],
  forfeitedRefills: ["forfeited_refills_total", "counter", "Refills forfeited after a jump of the clock."],
} as const satisfies Record<keyof StoreCounters, readonly [name: string, type: string, help: string]>;

/** What of a verifier's counters is shown; those of its limiter are in {@link LIMITER_FAMILIES}. */
const VERIFIER_FAMILIES = {
  degraded: ["degraded_total", "Verifications whose limiter could not answer."],
  outcomesDropped: ["outcomes_dropped_total", "Outcome events dropped."],
  creditsForfeited: ["credits_forfeited_total", "Leased credits that were given up."],
} as const satisfies Record<
  Exclude<keyof VerifierCounters, keyof LimiterCounters>,
  readonly [name: string, help: string]
>;

function storeFamilies({ ok, counters }: StoreHealth): string[] {
  return [
    ...family("keystile_store_ok", "gauge", "1 if the store can be relied on.", [["", ok ? 1 : 0]]),
    ...Object.entries(STORE_FAMILIES).flatMap(([of, [name, type, help]]) =>
      family(`keystile_store_${name}`, type, help, [["", counters[of as keyof StoreCounters]]]),
    ),
  ];
}

/** Label values come from fixed tables, so clients cannot make the maps grow. */
export function createMetrics(): Metrics {
  const requests = new Map<string, number>();
  const outcomes = new Map<string, number>();
  const durations = new Map<string, Histogram>();
  let inFlight = 0;
  return {
    begin: () => void inFlight++,
    end(operation, status, code, ms) {
      inFlight--;
      increment(requests, `operation="${operation}",status="${status}"`);
      if (status === 200 && code !== "") increment(outcomes, `code="${code}"`);
      observe(durations, operation, ms / 1_000);
    },
    read: (counters, namespaces, health, heldBytes) => {
      const { auditsDropped } = counters;
      const verifierFamily = (of: keyof typeof VERIFIER_FAMILIES): string[] => {
        const [name, help] = VERIFIER_FAMILIES[of];
        return family(`keystile_${name}`, "counter", help, [["", counters[of]]]);
      };
      return [
        ...family("keystile_requests_total", "counter", "Requests answered.", [...requests]),
        ...family("keystile_verifications_total", "counter", "Verifications by outcome.", [...outcomes]),
        ...family("keystile_requests_in_flight", "gauge", "Requests being answered.", [["", inFlight]]),
        ...family("keystile_requests_held_bytes", "gauge", "Bytes of the memory budget that requests hold.", [
          ["", heldBytes],
        ]),
        ...verifierFamily("degraded"),
        ...verifierFamily("outcomesDropped"),
        ...(auditsDropped === undefined
          ? []
          : family("keystile_audits_dropped_total", "counter", "Entries of the audit trail dropped.", [
              ["", auditsDropped],
            ])),
        ...verifierFamily("creditsForfeited"),
        ...limiterFamilies(counters, namespaces),
        ...(health === undefined ? [] : storeFamilies(health)),
        ...histogram("keystile_request_duration_seconds", "Time from the request to its answer.", durations),
        "",
      ].join("\n");
    },
  };
}

const LIMITER_FAMILIES = {
  newcomersRefused: ["newcomers_refused_total", "Checks refused because there was no space for a new bucket."],
  bucketsDisplaced: ["buckets_displaced_total", "Buckets that refused and gave way to another workspace's."],
} as const satisfies Record<keyof LimiterCounters, readonly [name: string, help: string]>;

/** What the limiters did for lack of space, those of keys and of namespaces. */
function limiterFamilies(keys: LimiterCounters, namespaces: LimiterCounters | undefined): string[] {
  const of = namespaces === undefined ? { keys } : { keys, namespaces };
  return Object.entries(LIMITER_FAMILIES).flatMap(([counter, [name, help]]) =>
    family(
      `keystile_limiter_${name}`,
      "counter",
      help,
      Object.entries(of).map(
        ([limits, counters]) => [`limits="${limits}"`, counters[counter as keyof LimiterCounters]] as const,
      ),
    ),
  );
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

const head = (name: string, type: string, help: string): string[] => [
  `# HELP ${name} ${help}`,
  `# TYPE ${name} ${type}`,
];

function family(
  name: string,
  type: string,
  help: string,
  samples: readonly (readonly [labels: string, value: number])[],
): string[] {
  return [
    ...head(name, type, help),
    ...samples.map(([labels, value]) => `${name}${labels === "" ? "" : `{${labels}}`} ${value}`),
  ];
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
