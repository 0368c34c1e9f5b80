/** Charts from the rows of a bench, kept beside it. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { median, QUICK, type Row } from "../harness.js";
import { scratch } from "../stores.js";
import { type Chart, drawChart, type Point } from "./chart.js";

/** A row as a point: nanoseconds as they are, or turned into a rate. */
export function toPoint(x: number, { values }: Row, read: (ns: number) => number): Point {
  const all = values.map(read);
  return { x, y: median(all), least: Math.min(...all), most: Math.max(...all) };
}

/** Writes `bench/<name>`; a smoke run draws it all the same, and throws it away. */
export function writePlot(name: string, chart: Chart): void {
  const folder = QUICK ? scratch("plots") : "bench";
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, name), drawChart(chart));
}
