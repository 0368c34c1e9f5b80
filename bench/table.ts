/** Results as tables in Markdown. Knows units, nothing of what was measured. */
import { median, type Result, type Row } from "./harness.js";

const HEAD = "| | median | min – max | per second | × floor | goal |\n| --- | --: | --: | --: | --: | --- |";

/** A heading and a table. A row's floor is the nearest row of that name above it. */
export function toMarkdown(name: string, { question, rows }: Result): string {
  const lines = rows.map((row, i) => toLine(row, floorOf(row, rows.slice(0, i))));
  return `## ${name}\n\n${question}\n\n${HEAD}\n${lines.join("\n")}\n`;
}

function floorOf(row: Row, above: readonly Row[]): Row | undefined {
  return row.floor === undefined ? undefined : above.findLast(({ name }) => name === row.floor);
}

function toLine(row: Row, floor: Row | undefined): string {
  const middle = median(row.values);
  const ratio = floor && middle / median(floor.values);
  const cells = [
    row.name,
    withUnit(middle, row.unit),
    `${toDigits(Math.min(...row.values))} – ${toDigits(Math.max(...row.values))}`,
    row.unit === "ns" ? toDigits(1e9 / middle) : "",
    ratio === undefined ? "" : ratio.toFixed(ratio < 0.1 ? 3 : 2),
    row.goal ?? "",
  ];
  return `| ${cells.join(" | ")} |`;
}

function withUnit(value: number, unit: Row["unit"]): string {
  return unit === "per second" ? `${toDigits(value)} /s` : `${toDigits(value)} ${unit}`;
}

/** Three digits that count, with commas. */
function toDigits(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 2 });
}
