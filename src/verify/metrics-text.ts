/**
 * Metrics of a program that verifies keys itself, in the Prometheus text format; the service shows the same families.
 * Labels are outcomes and names, nothing from a request.
 */
import type { StoreCounters, StoreHealth } from "../contracts/health.js";
import type { LimiterCounters } from "../contracts/limiter.js";
import type { Store } from "../contracts/store.js";
import type { Verifier, VerifierCounters } from "./verifier.js";

/**
 * Metrics of a verifier and its store, to append to those of your program.
 * @param store its health is shown if it has `health()`, as SQLite stores do; that reads the disk
 * @returns lines that begin with `# HELP`, and a line break at the end: names begin with `keystile_`. Verifications by
 *   outcome and credits are in it for a verifier with `analytics`
 * @throws (rejects) what `health()` of the store fails with
 * @example
 * response.end((await registry.metrics()) + (await metricsText(verifier, store)));
 */
export async function metricsText(verifier: Pick<Verifier<unknown>, "counters">, store?: Store): Promise<string> {
  const counters = verifier.counters();
  const { verifications, creditsSpent } = counters;
  const byOutcome = Object.entries(verifications ?? {}).map(([code, count]) => [`code="${code}"`, count] as const);
  return [
    ...(byOutcome.length === 0
      ? []
      : family("keystile_verifications_total", "counter", "Verifications by outcome.", byOutcome)),
    ...(creditsSpent === undefined
      ? []
      : family("keystile_credits_spent_total", "counter", "Credits that verifications took.", [["", creditsSpent]])),
    ...verifierFamilies(counters),
    ...(store !== undefined && tellsHealth(store) ? storeFamilies(await store.health()) : []),
    "",
  ].join("\n");
}

/** Whether a store has a health check. */
export function tellsHealth(store: Store): store is Store & { health(): StoreHealth | Promise<StoreHealth> } {
  return "health" in store && typeof store.health === "function";
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
  outcomesFolded: ["outcomes_folded_total", "Verifications counted without their key or tags."],
  outcomesUncounted: ["outcomes_uncounted_total", "Verifications that were not counted."],
  creditsForfeited: ["credits_forfeited_total", "Leased credits that were given up."],
  settlementsLate: ["settlements_late_total", "Reservations settled when their credits had returned, or were void."],
} as const satisfies Record<
  Exclude<keyof VerifierCounters, keyof LimiterCounters | "verifications" | "creditsSpent">,
  readonly [name: string, help: string]
>;

/** What a store says of itself. */
export function storeFamilies({ ok, counters }: StoreHealth): string[] {
  return [
    ...family("keystile_store_ok", "gauge", "1 if the store can be relied on.", [["", ok ? 1 : 0]]),
    ...Object.entries(STORE_FAMILIES).flatMap(([of, [name, type, help]]) =>
      family(`keystile_store_${name}`, type, help, [["", counters[of as keyof StoreCounters]]]),
    ),
  ];
}

const LIMITER_FAMILIES = {
  newcomersRefused: ["newcomers_refused_total", "Checks refused because there was no space for a new bucket."],
  bucketsDisplaced: ["buckets_displaced_total", "Buckets that refused and gave way to another workspace's."],
} as const satisfies Record<keyof LimiterCounters, readonly [name: string, help: string]>;

/** Counters of a verifier, and what the limiters did for lack of space: those of keys and of namespaces. */
export function verifierFamilies(keys: VerifierCounters, namespaces?: LimiterCounters): string[] {
  const of = namespaces === undefined ? { keys } : { keys, namespaces };
  const own = Object.entries(VERIFIER_FAMILIES).flatMap(([counter, [name, help]]) =>
    family(`keystile_${name}`, "counter", help, [["", keys[counter as keyof typeof VERIFIER_FAMILIES]]]),
  );
  const limiters = Object.entries(LIMITER_FAMILIES).flatMap(([counter, [name, help]]) =>
    family(
      `keystile_limiter_${name}`,
      "counter",
      help,
      Object.entries(of).map(
        ([limits, counters]) => [`limits="${limits}"`, counters[counter as keyof LimiterCounters]] as const,
      ),
    ),
  );
  return [...own, ...limiters];
}

/** The lines before the samples of a metric. */
export const head = (name: string, type: string, help: string): string[] => [
  `# HELP ${name} ${help}`,
  `# TYPE ${name} ${type}`,
];

/** A metric with its samples. */
export function family(
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
