/** `keystile analytics`, on a store: verifications by time, outcome and the rest, as a chart or as data. */
import { type Command, Option } from "commander";
import { createAnalytics } from "../../analytics/analytics.js";
import type { AnalyticsDimension } from "../../analytics/query.js";
import type { AnalyticsRow } from "../../analytics/rows.js";
import { addStoreFlags, type StoreFlags, withStore } from "../database/database.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { sinceOption, toInteger } from "../io/parsers.js";
import { count, note, oneLine, paint, pretty } from "../io/text.js";

const HELP = `
Counts are there if a verifier was made with { analytics: true }, or by \`keystile serve --analytics\`.

Examples:
  $ keystile analytics --db keys.db --by day,outcome --since 30d
  $ keystile analytics --db keys.db --by externalId --order count --limit 10
  $ keystile analytics --db keys.db --by month,keyId --since 365d --output csv > usage.csv`;

/** Characters of the longest bar: fewer where the terminal is narrow. */
const WIDTH = 40;
const MIN_WIDTH = 8;
const MAX_ROWS = 100_000_000;

interface Flags extends StoreFlags {
  readonly output?: "csv" | "ndjson" | "json";
  readonly by: readonly AnalyticsDimension[];
  readonly since: number;
  readonly order: "time" | "count" | "spent";
  readonly limit: number;
  readonly workspace?: string;
}

export function addAnalyticsCommand(program: Command, io: Io): void {
  addStoreFlags(program.command("analytics"))
    .description("Add up the verifications that a store has counted.")
    .option("--by <names>", "day, hour, month, outcome, keyId, externalId, apiId, tag, tag:NAME; up to four", toNames, [
      "day",
      "outcome",
    ] as AnalyticsDimension[])
    .addOption(sinceOption("30d"))
    .addOption(new Option("--order <what>", "what comes first").choices(["time", "count", "spent"]).default("time"))
    .option("--limit <rows>", "at most so many rows", toInteger(1, 10_000), 1_000)
    .option("--workspace <id>", "of this workspace")
    .addOption(new Option("--output <form>", "in place of a chart").choices(["csv", "ndjson", "json"]))
    .addHelpText("after", wrapped(HELP))
    .action((flags: Flags) => show(flags, io));
}

async function show(flags: Flags, io: Io): Promise<void> {
  const { db, store: address, schema, output, since, workspace, ...asked } = flags;
  const query = { ...asked, from: io.now() - since, to: io.now() };
  await withStore(flags, async (store) => {
    const options = { maxRows: MAX_ROWS, clock: io.now, ...(workspace !== undefined && { workspaceId: workspace }) };
    const analytics = createAnalytics(store, options);
    if (output === "csv" || output === "ndjson") {
      for await (const line of analytics.export(query, output)) await io.stdout.write(line);
      return;
    }
    const { rows } = await analytics.query(query);
    if (output === "json") await io.stdout.write(`${pretty(rows)}\n`);
    else if (rows.length === 0) await note(io, "nothing was counted");
    else await drawChart(io, rows, flags.order === "spent" ? "spent" : "count");
  });
}

/** @param drawn what bars are as long as */
async function drawChart(io: Io, rows: readonly AnalyticsRow[], drawn: "count" | "spent"): Promise<void> {
  const longest = Math.max(1, ...rows.map((row) => row[drawn]));
  const labels = rows.map((row) => oneLine(labelOf(row)));
  const ends = rows.map((row) => ` ${count(row.count)}${row.spent > 0 ? `  ${count(row.spent)} credits` : ""}`);
  const [label, end] = [labels, ends].map((texts) => Math.max(...texts.map(({ length }) => length))) as [
    number,
    number,
  ];
  const { columns = Infinity } = io.stdout;
  const width = Math.max(MIN_WIDTH, Math.min(WIDTH, columns - label - 2 - end));
  const lines = rows.map((row, i) => `${labels[i]!.padEnd(label)}  ${barOf(row[drawn] / longest, width)}${ends[i]}\n`);
  await io.stdout.write(lines.join(""));
  const scale = `the longest bar is ${count(longest)} ${drawn === "spent" ? "credits" : "calls"}`;
  await note(io, paint(io, io.stderr, "dim", scale));
}

/** Drawn in eighths of a character: what is little beside the longest is told apart, too. */
function barOf(share: number, width: number): string {
  const eighths = share === 0 ? 0 : Math.max(1, Math.round(share * width * 8));
  return "█".repeat(eighths >> 3) + "▏▎▍▌▋▊▉".slice(0, eighths & 7).slice(-1);
}

function labelOf({ time, keyId, externalId, apiId, outcome, tag, tags }: AnalyticsRow): string {
  const start = time === undefined ? undefined : new Date(time).toISOString().slice(0, 16).replace("T00:00", "");
  const values = Object.entries(tags ?? {}).map(([name, value]) => `${name}=${value}`);
  const parts = [start, apiId, keyId, externalId, outcome, tag, ...values];
  return (
    parts
      .filter((part) => part !== undefined)
      .map((part) => (part === "" ? "-" : part))
      .join("  ") || "all"
  );
}

const toNames = (text: string): readonly string[] => text.split(",");
