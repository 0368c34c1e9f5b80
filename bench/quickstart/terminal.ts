/** What the quickstart shows: headings, lines, tables, a progress bar. Colours and the bar on a terminal only. */
import { inspect, styleText } from "node:util";
import { drawProgress, type Progress } from "../../src/cli/import/progress.js";

/** A cell; numbers are set right. */
export type Cell = string | number;

/** Where the quickstart tells its story. */
export interface Screen {
  title(text: string, note: string): void;
  step(text: string): void;
  line(text: string): void;
  check(ok: boolean, text: string): void;
  table(head: readonly string[], rows: readonly (readonly Cell[])[]): void;
  value(value: unknown): void;
  progress(label: string, total: number): Progress;
}

type Style = (text: string) => string;

/** On standard output; plain where that is no terminal or NO_COLOR is set. */
export function terminalScreen(): Screen {
  const tty = process.stdout.isTTY;
  const coloured = tty && !process.env["NO_COLOR"];
  const style =
    (format: Parameters<typeof styleText>[0]): Style =>
    (text) =>
      coloured ? styleText(format, text, { validateStream: false }) : text;
  const [bold, dim, green, red, cyan] = [style("bold"), style("dim"), style("green"), style("red"), style("cyan")];
  const print = (text = ""): void => void process.stdout.write(`${text}\n`);
  let steps = 0;

  return {
    title: (text, note) => print(`\n${bold(text)}  ${dim(note)}`),
    step: (text) => print(`\n${cyan(bold(String(++steps)))}  ${bold(text)}`),
    line: (text) => print(`   ${text}`),
    check: (ok, text) => print(`   ${ok ? green("✓") : red("✗")} ${ok ? text : red(text)}`),
    table(head, rows) {
      const widths = head.map((name, i) => Math.max(name.length, ...rows.map((row) => show(row[i] ?? "").length)));
      const lay = (cells: readonly Cell[], right: readonly boolean[]): string =>
        cells
          .map((cell, i) => (right[i] ? show(cell).padStart(widths[i] ?? 0) : show(cell).padEnd(widths[i] ?? 0)))
          .join("   ")
          .trimEnd();
      const right = head.map((_name, i) => rows.every((row) => typeof row[i] === "number"));
      print(`   ${dim(lay(head, right))}`);
      for (const row of rows) print(`   ${paintMark(lay(row, right), green, red)}`);
    },
    value: (value) => print(inspect(value, { depth: null, breakLength: 110, colors: coloured }).replace(/^/gm, "   ")),
    progress: tty ? (label, total) => drawProgress(process.stdout, label, total, Date.now) : plainProgress(print),
  };
}

/** For `--output json`: says nothing. */
export function silentScreen(): Screen {
  const nothing = (): void => undefined;
  return {
    title: nothing,
    step: nothing,
    line: nothing,
    check: nothing,
    table: nothing,
    value: nothing,
    progress: () => ({ update: nothing, stop: nothing }),
  };
}

const show = (cell: Cell): string => (typeof cell === "number" ? cell.toLocaleString("en-US") : cell);

const paintMark = (line: string, green: Style, red: Style): string =>
  line.replace(/✓$/, green("✓")).replace(/✗$/, red("✗"));

/** A line for each quarter. */
const plainProgress =
  (print: (text: string) => void) =>
  (label: string, total: number): Progress => {
    let told = 0;
    return {
      update(done) {
        const quarter = Math.floor((done / total) * 4);
        if (quarter > told) print(`   ${String(quarter * 25).padStart(3)} %  ${label}`);
        told = Math.max(told, quarter);
      },
      stop: () => undefined,
    };
  };
