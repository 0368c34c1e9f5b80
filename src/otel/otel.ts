/**
 * The entry point `keystile/otel`: metrics of a verifier, and how long a store takes, for OpenTelemetry. Attributes are
 * outcomes, names of methods and codes of errors; no key, hash, token or id.
 * @module keystile/otel
 */
import type { BatchObservableCallback, Meter, Span, SpanKind, SpanStatusCode, Tracer } from "@opentelemetry/api";
import { isKeystileError } from "../contracts/errors.js";
import type { Store } from "../contracts/store.js";
import { ALL_METHODS, checkStore } from "../lib/guards/guard-store.js";
import { isTrusted, trust } from "../lib/guards/trusted.js";
import { isThenable } from "../lib/thenable.js";
import type { Verifier } from "../verify/verifier.js";

/** Of {@link instrumentStore}. */
export interface InstrumentStoreOptions {
  /** Of your provider: `metrics.getMeter("keystile")`. */
  readonly meter: Meter;
  /** Makes a span of each call too, below the one that is active. Default: none. */
  readonly tracer?: Tracer | undefined;
  /** What is attributed as `db.system.name`: `sqlite`, `postgresql` or another. */
  readonly system: string;
}

/** Calls that reach no engine, and the one that every verification makes, which mostly reads a number in memory. */
const UNTIMED: ReadonlySet<string> = new Set(["subscribe", "pollChanges", "close"]);
/** As the semantic conventions advise for `db.client.operation.duration`, seconds. */
const BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];
/* oxlint-disable typescript/no-unsafe-enum-assignment -- of the peer only types are imported */
const CLIENT: SpanKind.CLIENT = 2;
const ERROR: SpanStatusCode.ERROR = 2;
/* oxlint-enable typescript/no-unsafe-enum-assignment */

/**
 * A store whose calls are measured, as `db.client.operation.duration` in seconds by `db.operation.name`. What is found
 * in memory makes no call. Give it to `createVerifier` and `createKeyring` in place of the other.
 * @param store stays as it is; closing one closes both
 * @throws TypeError naming the method that the store lacks
 * @example
 * const store = instrumentStore(sqliteStore("keys.db"), { meter: metrics.getMeter("keystile"), system: "sqlite" });
 */
export function instrumentStore<S extends Store>(store: S, { meter, tracer, system }: InstrumentStoreOptions): S {
  checkStore(store);
  const duration = meter.createHistogram("db.client.operation.duration", {
    unit: "s",
    description: "Duration of calls of the store.",
    advice: { explicitBucketBoundaries: BUCKETS },
  });
  const timed = (name: string, call: (...given: readonly unknown[]) => unknown) => {
    const attributes = { "db.system.name": system, "db.operation.name": name };
    const end = (began: number, span: Span | undefined, failure?: { readonly error: unknown }): void => {
      const of = failure === undefined ? attributes : { ...attributes, "error.type": typeOf(failure.error) };
      duration.record((performance.now() - began) / 1_000, of);
      if (failure !== undefined) span?.setAttributes(of).setStatus({ code: ERROR });
      span?.end();
    };
    return (...given: readonly unknown[]): unknown => {
      const began = performance.now();
      const span = tracer?.startSpan(name, { kind: CLIENT, attributes });
      const fail = (error: unknown): never => {
        end(began, span, { error });
        throw error;
      };
      const pass = <T>(value: T): T => (end(began, span), value);
      try {
        const result = call(...given);
        return isThenable(result) ? Promise.resolve(result).then(pass, fail) : pass(result);
      } catch (error) {
        return fail(error);
      }
    };
  };
  const methods = ALL_METHODS.filter((name) => store[name] !== undefined).map((name) => {
    const call = (...given: readonly unknown[]) => (store[name] as (...given: readonly unknown[]) => unknown)(...given);
    return [name, UNTIMED.has(name) ? call : timed(name, call)];
  });
  const instrumented = { ...store, powers: store.powers, ...(Object.fromEntries(methods) as Partial<Store>) };
  return isTrusted(store) ? trust(instrumented) : instrumented;
}

/** A code, or that it was another error: names and messages are the store's own. */
function typeOf(error: unknown): string {
  return isKeystileError(error) ? error.code : "_OTHER";
}

/**
 * Shows what a verifier counts: `keystile.verifications` by `keystile.outcome` and `keystile.credits.spent`, both with
 * `analytics` alone, and `keystile.analytics.folded`.
 * @returns a function that ends it
 * @example
 * instrumentVerifier(verifier, metrics.getMeter("keystile"));
 */
export function instrumentVerifier(verifier: Pick<Verifier<unknown>, "counters">, meter: Meter): () => void {
  const counter = (name: string, unit: string, description: string) =>
    meter.createObservableCounter(name, { unit, description });
  const verifications = counter("keystile.verifications", "{verification}", "Verifications by outcome.");
  const spent = counter("keystile.credits.spent", "{credit}", "Credits that verifications took.");
  const folded = counter("keystile.analytics.folded", "{verification}", "Counted without their key or tags.");
  const observe: BatchObservableCallback = (observed) => {
    const { verifications: counts, creditsSpent, outcomesFolded } = verifier.counters();
    for (const [code, count] of Object.entries(counts ?? {}))
      observed.observe(verifications, count, { "keystile.outcome": code });
    if (creditsSpent !== undefined) observed.observe(spent, creditsSpent);
    observed.observe(folded, outcomesFolded);
  };
  const all = [verifications, spent, folded];
  meter.addBatchObservableCallback(observe, all);
  return () => meter.removeBatchObservableCallback(observe, all);
}
