/** Results as tables in Markdown. Knows units, nothing of what was measured. */
import { median, type Result, type Row } from "./harness.js";

const HEAD = ["", "median", "min – max", "per second", "× baseline", "goal"];
const RULE = ["---", "--:", "--:", "--:", "--:", "---"];

/** A heading and a table. A row's floor is the nearest row of that name above it; notes get columns of their own. */
export function toMarkdown(name: string, { question, rows }: Result): string {
  const columns = [...new Set(rows.flatMap(({ notes = {} }) => Object.keys(notes)))];
  const head = [
    [...HEAD, ...columns],
    [...RULE, ...columns.map(() => "---")],
  ].map(joinCells);
  const lines = rows.map((row, i) => {
    const notes = columns.map((column) => row.notes?.[column] ?? "");
    return joinCells([...cellsOf(row, floorOf(row, rows.slice(0, i))), ...notes]);
  });
  return `## ${name}\n\n${question}\n\n${[...head, ...lines].join("\n")}\n`;
}

const joinCells = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;

function floorOf(row: Row, above: readonly Row[]): Row | undefined {
  return row.floor === undefined ? undefined : above.findLast(({ name }) => name === row.floor);
}

function cellsOf(row: Row, floor: Row | undefined): string[] {
  const middle = median(row.values);
  const ratio = floor && middle / median(floor.values);
  return [
    row.name,
    withUnit(middle, row.unit),
    `${toDigits(Math.min(...row.values))} – ${toDigits(Math.max(...row.values))}`,
    row.unit === "ns" ? toDigits(1e9 / middle) : "",
    ratio === undefined ? "" : ratio.toFixed(ratio < 0.1 ? 3 : 2),
    row.goal ?? "",
  ];
}

function withUnit(value: number, unit: Row["unit"]): string {
  return unit === "per second" ? `${toDigits(value)} /s` : `${toDigits(value)} ${unit}`;
}

/** Three digits that count, with commas. */
function toDigits(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 2 });
}
