/**
 * Metrics of a program that verifies keys itself, in the Prometheus text format; the HTTP service has the same
 * families. Labels are outcomes and fixed names, nothing from a request.
 */
import type { StoreCounters, StoreHealth } from "../contracts/health.js";
import type { LimiterCounters } from "../contracts/limiter.js";
import type { Store } from "../contracts/store.js";
import type { Verifier, VerifierCounters } from "./verifier.js";

/**
 * Metrics of a verifier and its store, to append to your program's own metrics.
 * @param store its health is included if it has `health()`, as SQLite stores do; `health()` reads the disk
 * @returns text that begins with `# HELP` and ends with a line break; metric names begin with `keystile_`.
 *   Verifications by outcome and credits spent are included if the verifier has `analytics`
 * @throws (rejects) the error of the store's `health()`
 * @example
 * response.end((await registry.metrics()) + (await metricsText(verifier, store)));
 */
export async function metricsText(verifier: Pick<Verifier<unknown>, "counters">, store?: Store): Promise<string> {
  const counters = verifier.counters();
  const { verifications, creditsSpent } = counters;
  const byOutcome = Object.entries(verifications ?? {}).map(([code, count]) => [`code="${code}"`, count] as const);
  return [
    ...(byOutcome.length === 0 ? [] : family("keystile_verifications_total", "Verifications by outcome.", byOutcome)),
    ...(creditsSpent === undefined
      ? []
      : family("keystile_credits_spent_total", "Credits that verifications took.", [["", creditsSpent]])),
    ...verifierFamilies(counters),
    ...(store !== undefined && tellsHealth(store) ? storeFamilies(await store.health()) : []),
    "",
  ].join("\n");
}

/** Whether a store has a health check. */
export function tellsHealth(store: Store): store is Store & { health(): StoreHealth | Promise<StoreHealth> } {
  return "health" in store && typeof store.health === "function";
}

/** The store counters that are shown. They start at 0 with the process. */
const STORE_FAMILIES = {
  walBytes: ["wal_bytes", "Bytes of the store's write-ahead log."],
  checkpoints: ["checkpoints_total", "Times that the log was carried over as a whole."],
  lockWaits: ["lock_waits_total", "Times that calls had to wait for a locked file."],
  lockWaitMs: ["lock_wait_ms_total", "Milliseconds for which the file was locked by others."],
  busyErrors: ["busy_errors_total", "Calls that failed with STORE_BUSY."],
  failedWrites: ["failed_writes_total", "Transactions that failed on the disk."],
  failedSyncs: ["failed_syncs_total", "Transactions that failed in fsync."],
  failedReturns: ["failed_returns_total", "Returns of leased credits that failed."],
  forfeitedRefills: ["forfeited_refills_total", "Refills forfeited after a jump of the clock."],
} as const satisfies Record<keyof StoreCounters, readonly [name: string, help: string]>;

/** The verifier counters that are shown; its limiter's are in {@link LIMITER_FAMILIES}. */
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

/** Metrics of a store. */
export function storeFamilies({ ok, counters }: StoreHealth): string[] {
  return [
    ...family("keystile_store_ok", "1 if the store can be relied on.", [["", ok ? 1 : 0]]),
    ...Object.entries(STORE_FAMILIES).flatMap(([of, [name, help]]) =>
      family(`keystile_store_${name}`, help, [["", counters[of as keyof StoreCounters]]]),
    ),
  ];
}

const LIMITER_FAMILIES = {
  newcomersRefused: ["newcomers_refused_total", "Checks refused because there was no space for a new bucket."],
  bucketsDisplaced: ["buckets_displaced_total", "Buckets that refused and gave way to another workspace's."],
} as const satisfies Record<keyof LimiterCounters, readonly [name: string, help: string]>;

/** Metrics of a verifier with its limiter (`keys`), and of the limiter of namespaces if one is given. */
export function verifierFamilies(keys: VerifierCounters, namespaces?: LimiterCounters): string[] {
  const of = namespaces === undefined ? { keys } : { keys, namespaces };
  const own = Object.entries(VERIFIER_FAMILIES).flatMap(([counter, [name, help]]) =>
    family(`keystile_${name}`, help, [["", keys[counter as keyof typeof VERIFIER_FAMILIES]]]),
  );
  const limiters = Object.entries(LIMITER_FAMILIES).flatMap(([counter, [name, help]]) =>
    family(
      `keystile_limiter_${name}`,
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

/** A metric with its samples. Its name says its type: that of a counter ends with `_total`. */
export function family(
  name: string,
  help: string,
  samples: readonly (readonly [labels: string, value: number])[],
): string[] {
  return [
    ...head(name, name.endsWith("_total") ? "counter" : "gauge", help),
    ...samples.map(([labels, value]) => `${name}${labels === "" ? "" : `{${labels}}`} ${value}`),
  ];
}
