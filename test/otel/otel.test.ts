/** `keystile/otel` with OpenTelemetry's own SDK: what is measured, what spans say, and what neither ever says. */
import { context, type ContextManager, ROOT_CONTEXT, SpanKind, trace } from "@opentelemetry/api";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { describe, expect, it } from "vitest";
import { createAlerts, createKeyring, createVerifier, memoryStore, type Store } from "../../src/index.js";
import { instrumentStore, instrumentVerifier } from "../../src/otel/otel.js";
import { isTrusted } from "../../src/lib/guards/trusted.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";

function sdk() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const provider = new MeterProvider({ readers: [reader] });
  const spans = new InMemorySpanExporter();
  const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const collect = async (): Promise<ReadonlyMap<string, MetricData>> => {
    await reader.forceFlush();
    const last = exporter.getMetrics().at(-1)!;
    exporter.reset();
    return new Map(last.scopeMetrics.flatMap(({ metrics }) => metrics).map((one) => [one.descriptor.name, one]));
  };
  return {
    ...{ meter: provider.getMeter("keystile"), tracer: tracers.getTracer("keystile"), spans, collect },
    close: () => Promise.all([provider.shutdown(), tracers.shutdown()]),
  };
}

const pointsOf = (metric: MetricData | undefined) =>
  metric?.dataPoints.map(({ attributes, value }) => [attributes, value] as const) ?? [];

describe.each([
  ["memory", () => memoryStore()],
  ["sqlite", () => sqliteStore(":memory:")],
])("keystile/otel on %s", (system, open) => {
  it("metrics are those of the verifier, and of each call of the store; no key or id is in any", async () => {
    const { meter, tracer, spans, collect, close } = sdk();
    const store: Store = instrumentStore<Store>(open(), { meter, tracer, system });
    expect(isTrusted(store)).toBe(true);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 10 } });
    const verifier = createVerifier(store, { analytics: true });
    const stop = instrumentVerifier(verifier, meter);
    for (const cost of [3, 4, 100]) await verifier.verify({ key, credits: { cost } });
    await verifier.verify({ key: "sk_unknown" });
    // Of a method that a store may lack.
    await store.findWallet!("id_unknown");

    const metrics = await collect();
    const outcomes = new Map(
      pointsOf(metrics.get("keystile.verifications")).map(([of, n]) => [of["keystile.outcome"], n]),
    );
    expect([outcomes.get("VALID"), outcomes.get("USAGE_EXCEEDED"), outcomes.get("NOT_FOUND")]).toEqual([2, 1, 1]);
    expect(pointsOf(metrics.get("keystile.credits.spent"))).toEqual([[{}, 7]]);
    expect(pointsOf(metrics.get("keystile.analytics.folded"))).toEqual([[{}, 0]]);
    const duration = metrics.get("db.client.operation.duration")!;
    expect(duration.descriptor.unit).toBe("s");
    const calls = new Map(pointsOf(duration).map(([of, value]) => [of["db.operation.name"], { of, value }]));
    expect(calls.has("findWallet")).toBe(true);
    const spend = calls.get("spendCredits")!;
    expect(spend.of).toEqual({ "db.system.name": system, "db.operation.name": "spendCredits" });
    expect(spend.value).toMatchObject({
      count: 3,
      buckets: { boundaries: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10] },
    });
    expect((spend.value as { sum: number }).sum).toBeGreaterThan(0);
    expect(calls.has("pollChanges")).toBe(false);

    const finished = spans.getFinishedSpans();
    expect(finished.filter(({ name }) => name === "spendCredits")).toHaveLength(3);
    expect(finished.every(({ kind }) => kind === SpanKind.CLIENT)).toBe(true);
    const said = JSON.stringify([
      [...metrics.values()],
      finished.map(({ name, attributes, events }) => [name, attributes, events]),
    ]);
    for (const secret of [key, keyId, apiId, "sk_unknown", key.slice(0, 8)]) expect(said).not.toContain(secret);

    stop();
    await verifier.verify({ key: "sk_unknown" });
    const later = pointsOf((await collect()).get("keystile.verifications"));
    expect(later.find(([of]) => of["keystile.outcome"] === "NOT_FOUND")?.[1] ?? 1).toBe(1);
    await verifier.close();
    await store.close();
    await close();
  });
});

describe("keystile/otel", () => {
  it("a call that fails is counted by its code and marked in its span, and its error passes as it was", async () => {
    const { meter, tracer, spans, collect, close } = sdk();
    const failures = { findKey: new Error("sk_secret"), recordUses: new TypeError("sk_secret") };
    const given: Store = {
      ...memoryStore(),
      findKey: () => Promise.reject(failures.findKey),
      recordUses() {
        throw failures.recordUses;
      },
    };
    const store = instrumentStore(given, { meter, tracer, system: "other_sql" });
    expect(isTrusted(store)).toBe(false);
    await expect(Promise.resolve(store.findKey("a"))).rejects.toBe(failures.findKey);
    expect(() => store.recordUses([])).toThrow(failures.recordUses);
    await store.close();
    expect(() => store.list("keys", { workspaceId: "w", limit: 1 })).toThrow("closed");
    const types = pointsOf((await collect()).get("db.client.operation.duration")).map(([of]) => [
      of["db.operation.name"],
      of["error.type"],
    ]);
    expect(types.sort()).toEqual([
      ["findKey", "_OTHER"],
      ["list", "STORE_CLOSED"],
      ["recordUses", "_OTHER"],
    ]);
    for (const { status, events, attributes } of spans.getFinishedSpans()) {
      expect([status, events]).toEqual([{ code: 2 }, []]);
      expect(JSON.stringify(attributes)).not.toContain("sk_secret");
    }
    await close();
  });

  it("without analytics only what was folded is shown; without a tracer there are no spans", async () => {
    const { meter, spans, collect, close } = sdk();
    const store = instrumentStore(memoryStore(), { meter, system: "other_sql" });
    const verifier = createVerifier(store);
    instrumentVerifier(verifier, meter);
    await verifier.verify({ key: "a" });
    expect([...(await collect()).keys()].sort()).toEqual(["db.client.operation.duration", "keystile.analytics.folded"]);
    expect(spans.getFinishedSpans()).toEqual([]);
    await verifier.close();
    await close();
  });

  it("what a store has besides the port stays, and other powers are measured too", async () => {
    const { meter, collect, close } = sdk();
    const store = instrumentStore(sqliteStore(":memory:"), { meter, system: "sqlite" });
    expect(store.health().ok).toBe(true);
    const alerts = createAlerts(store, { creditsBelow: 1, interval: 0, deliver: () => undefined });
    await alerts.run();
    const names = pointsOf((await collect()).get("db.client.operation.duration")).map(
      ([of]) => of["db.operation.name"],
    );
    expect(names).toEqual(expect.arrayContaining(["list", "listAlerts", "takeAlerts"]));
    await store.close();
    await close();
  });

  it("a span is below the one that is active", async () => {
    const { meter, tracer, spans, close } = sdk();
    const store = instrumentStore(memoryStore(), { meter, tracer, system: "other_sql" });
    const parent = tracer.startSpan("request");
    const active = trace.setSpan(ROOT_CONTEXT, parent);
    const manager: ContextManager = {
      active: () => active,
      with: (_, act, self, ...given) => act.apply(self as never, given),
      bind: (_, target) => target,
      enable: () => manager,
      disable: () => manager,
    };
    context.setGlobalContextManager(manager);
    try {
      await store.findKey("a");
    } finally {
      context.disable();
    }
    const [span] = spans.getFinishedSpans();
    expect([span!.name, span!.parentSpanContext?.spanId]).toEqual(["findKey", parent.spanContext().spanId]);
    await close();
  });
});
