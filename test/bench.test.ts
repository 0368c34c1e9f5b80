/**
 * The benches still run, and what they measure is still right: each checks its own answers and balances. Their speeds
 * are no test's business.
 */
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { type Result, type Row } from "../bench/harness.js";
import { addLatency, createLatencies, latencyAt, mergeLatencies } from "../bench/latencies.js";
import { toMarkdown } from "../bench/table.js";

const ROOT = join(import.meta.dirname, "..");
/** Files of bench/ that others use; all other files are benches. */
const SHARED = [
  "bare",
  "children",
  "connect",
  "harness",
  "keys",
  "large",
  "latencies",
  "lines",
  "run",
  "stores",
  "table",
  "work",
  "writer",
];

describe("bench: a smoke run", () => {
  let results: Record<string, Result>;

  beforeAll(() => {
    const args = ["--import", "tsx", "bench/run.ts", "--quick", "--output", "json"];
    results = JSON.parse(execFileSync(process.execPath, args, { cwd: ROOT, encoding: "utf8" })) as Record<
      string,
      Result
    >;
    // It took 48 s beside a few other programs, and two minutes beside a dozen.
  }, 300_000);

  it("every bench runs, and every file of the folder is a bench or known as shared", () => {
    const files = readdirSync(join(ROOT, "bench")).filter((name) => name.endsWith(".ts"));
    const benches = files.map((name) => name.slice(0, -".ts".length)).filter((name) => !SHARED.includes(name));
    expect(Object.keys(results).sort()).toEqual(benches.sort());
  });

  it("every row has a value for each round, and its floor above it", () => {
    for (const { question, rows } of Object.values(results)) {
      expect(question).toMatch(/\?$/);
      rows.forEach(({ name, unit, values, floor }, i) => {
        // Bytes are a difference of two measurements, and so few keys weigh less than their noise.
        for (const value of values) expect(value, name).toBeGreaterThanOrEqual(unit === "bytes" ? -Infinity : 0);
        if (floor !== undefined) expect(rows.slice(0, i).map((row) => row.name)).toContain(floor);
      });
    }
  });
});

describe("bench: the table", () => {
  const row = (name: string, values: number[], more: Partial<Row> = {}): Row => ({ name, unit: "ns", values, ...more });
  const lines = (rows: Row[]) => toMarkdown("hot", { question: "Why?", rows }).split("\n").slice(6, -1);

  it("shows median, range, rate and the ratio of medians", () => {
    expect(
      lines([row("floor", [100, 200, 250]), row("verify", [300, 280, 1_000], { floor: "floor", goal: "≤ 1.5" })]),
    ).toEqual([
      "| floor | 200 ns | 100 – 250 | 5,000,000 |  |  |",
      "| verify | 300 ns | 280 – 1,000 | 3,330,000 | 1.50 | ≤ 1.5 |",
    ]);
  });

  it("takes the nearest floor above, and means the two middle values of an even count", () => {
    const rows = [row("floor", [1]), row("floor", [100, 300]), row("verify", [20], { floor: "floor", unit: "bytes" })];
    expect(lines(rows)[2]).toBe("| verify | 20 bytes | 20 – 20 |  | 0.10 |  |");
  });
});

describe("bench: latencies", () => {
  const ofAll = (durations: readonly number[]) => {
    const latencies = createLatencies();
    for (const ms of durations) addLatency(latencies, ms);
    return latencies;
  };

  it("tells percentiles of several processes together, within the width of a bucket", () => {
    const durations = Array.from({ length: 10_000 }, (_, i) => (i + 1) / 100);
    const halves = [0, 1].map((half) => ofAll(durations.filter((_, i) => i % 2 === half)));
    for (const p of [0.01, 0.5, 0.99]) {
      expect(latencyAt(mergeLatencies(halves), p) / (100 * p)).toBeGreaterThan(0.98);
      expect(latencyAt(mergeLatencies(halves), p) / (100 * p)).toBeLessThan(1.02);
    }
  });

  it("keeps durations that are too short or too long at the ends, and has none of nothing", () => {
    expect(latencyAt(ofAll([0, 0, 0]), 0.5)).toBeLessThan(0.001);
    expect(latencyAt(ofAll([1e9]), 0.5) / 60_000).toBeCloseTo(1, 1);
    expect(latencyAt(createLatencies(), 0.5)).toBeNaN();
  });
});
