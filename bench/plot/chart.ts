/** Line charts on logarithmic axes, as SVG that reads well on light and on dark pages. */
import { logScale, type Scale, shorten, ticksAround } from "./scale.js";

/** A median, and the least and the most around it. */
export interface Point {
  readonly x: number;
  readonly y: number;
  readonly least: number;
  readonly most: number;
}

export interface Series {
  readonly name: string;
  /** Series of one hue belong together: a floor is drawn dashed in the hue of what stands on it. */
  readonly hue: "first" | "second" | "plain";
  readonly dashed?: boolean;
  readonly points: readonly Point[];
}

export interface Chart {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly series: readonly Series[];
}

const WIDTH = 760;
const HEIGHT = 420;
/** Space for labels around the lines. */
const EDGE = { top: 56, right: 190, bottom: 54, left: 66 };
const LEAST_GAP = 15;

const STYLE = `
.ground { fill: #ffffff }
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.quiet { fill: #59636e }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.line { fill: none; stroke-width: 2.5 }
.dashed { stroke-dasharray: 6 5 }
.first { stroke: #0969da } .second { stroke: #bc4c00 } .plain { stroke: #59636e }
text.first { stroke: none; fill: #0969da } text.second { stroke: none; fill: #bc4c00 } text.plain { stroke: none; fill: #59636e }
.dot { stroke: none }
.dot.first { fill: #0969da } .dot.second { fill: #bc4c00 } .dot.plain { fill: #59636e }
@media (prefers-color-scheme: dark) {
  .ground { fill: #0d1117 }
  text { fill: #e6edf3 } .quiet { fill: #9198a1 } .grid { stroke: #30363d }
  .first { stroke: #58a6ff } .second { stroke: #f0883e } .plain { stroke: #9198a1 }
  text.first { fill: #58a6ff } text.second { fill: #f0883e } text.plain { fill: #9198a1 }
  .dot.first { fill: #58a6ff } .dot.second { fill: #f0883e } .dot.plain { fill: #9198a1 }
}`;

/** The whole file. Its colours follow the system's, which a page around it may not do: so its ground is its own. */
export function drawChart({ title, xLabel, yLabel, series }: Chart): string {
  const points = series.flatMap((line) => line.points);
  const xs = [...new Set(points.map(({ x }) => x))].sort((a, b) => a - b);
  const yTicks = ticksAround(points.flatMap(({ least, most }) => [least, most]));
  const x = logScale(xs[0]!, xs.at(-1)!, EDGE.left, WIDTH - EDGE.right);
  const y = logScale(yTicks[0]!, yTicks.at(-1)!, HEIGHT - EDGE.bottom, EDGE.top);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escape(title)}">`,
    `<style>${STYLE}\n</style>`,
    `<rect class="ground" width="${WIDTH}" height="${HEIGHT}"/>`,
    text(EDGE.left, 24, title, "title"),
    text(EDGE.left, 44, yLabel, "quiet"),
    text((EDGE.left + WIDTH - EDGE.right) / 2, HEIGHT - 12, xLabel, "quiet", "middle"),
    ...yTicks.map((tick) => drawTick(tick, y)),
    ...xs.map((tick) => text(x.place(tick), HEIGHT - EDGE.bottom + 20, shorten(tick), "quiet", "middle")),
    ...series.map((line) => drawLine(line, x, y)),
    ...drawNames(series, x, y),
    "</svg>",
  ];
  return `${parts.join("\n")}\n`;
}

function drawTick(tick: number, y: Scale): string {
  const at = round(y.place(tick));
  const line = `<line class="grid" x1="${EDGE.left}" x2="${WIDTH - EDGE.right}" y1="${at}" y2="${at}"/>`;
  return line + text(EDGE.left - 8, at + 4, shorten(tick), "quiet", "end");
}

function drawLine({ hue, dashed = false, points }: Series, x: Scale, y: Scale): string {
  const path = points.map((point) => `${round(x.place(point.x))},${round(y.place(point.y))}`).join(" ");
  const line = `<polyline class="line ${hue}${dashed ? " dashed" : ""}" points="${path}"/>`;
  if (dashed) return line;
  const marks = points.map((point) => {
    const at = round(x.place(point.x));
    const range = `<line class="${hue}" x1="${at}" x2="${at}" y1="${round(y.place(point.least))}" y2="${round(y.place(point.most))}"/>`;
    return `${range}<circle class="dot ${hue}" cx="${at}" cy="${round(y.place(point.y))}" r="4"/>`;
  });
  return [line, ...marks].join("\n");
}

/** Names stand at the ends of their lines, pushed down where they would touch. */
function drawNames(series: readonly Series[], x: Scale, y: Scale): string[] {
  const ends = series.map((line) => ({ line, at: y.place(line.points.at(-1)!.y) + 4 })).sort((a, b) => a.at - b.at);
  let free = -Infinity;
  return ends.map(({ line, at }) => {
    free = Math.max(at, free + LEAST_GAP);
    return text(x.place(x.max) + 10, free, line.name, line.hue);
  });
}

function text(x: number, y: number, content: string, name: string, anchor = "start"): string {
  return `<text x="${round(x)}" y="${round(y)}" class="${name}" text-anchor="${anchor}">${escape(content)}</text>`;
}

const round = (value: number): number => Math.round(value * 10) / 10;
const escape = (content: string): string =>
  content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
