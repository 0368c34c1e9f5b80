/** What the quickstart shows: headings, lines, tables, a progress bar. Colours and the bar on a terminal only. */
import { inspect } from "node:util";
import cliProgress from "cli-progress";

/** A cell; numbers are set right. */
export type Cell = string | number;

/** A progress bar, or what stands for one. */
export interface Progress {
  update(done: number): void;
  stop(): void;
}

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
  const style = (code: string): Style => (coloured ? (text) => `\u001b[${code}m${text}\u001b[0m` : (text) => text);
  const [bold, dim, green, red, cyan] = [style("1"), style("2"), style("32"), style("31"), style("36")];
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
    progress: tty ? barOf(dim) : plainProgress(print),
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

const paintMark = (line: string, green: Style, red: Style): string => line.replace(/✓$/, green("✓")).replace(/✗$/, red("✗"));

const barOf =
  (dim: Style) =>
  (label: string, total: number): Progress => {
    const bar = new cliProgress.SingleBar({
      format: `   {bar} {percentage}%  {value}/{total}  ${dim(label)}`,
      barCompleteChar: "█",
      barIncompleteChar: "░",
      barsize: 30,
      hideCursor: true,
    });
    bar.start(total, 0);
    return { update: (done) => bar.update(done), stop: () => bar.stop() };
  };

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
