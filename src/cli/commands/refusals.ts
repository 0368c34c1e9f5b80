/** `keystile refusals`, on a store: why calls of a key, an owner or an API were refused. */
import type { Command } from "commander";
import { createAnalytics } from "../../analytics/analytics.js";
import type { Refusals, RefusalsOf } from "../../analytics/refusals.js";
import type { Refusal } from "../../contracts/outcomes.js";
import { addDatabaseFlags, type DatabaseFlags, withStore } from "../database/database.js";
import { requireFound } from "../database/require-found.js";
import { usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { sinceOption } from "../io/parsers.js";
import { count, hang, note, oneLine, pretty } from "../io/text.js";

const HELP = `
Refusals are there as counts are: see \`keystile analytics --help\`.

Examples:
  $ keystile refusals --db keys.db --key-id key_… --since 12h
  $ keystile refusals --db keys.db --external-id acme --output json`;

interface Flags extends DatabaseFlags, RefusalsOf {
  readonly since: number;
  readonly workspace?: string;
}

export function addRefusalsCommand(program: Command, io: Io): void {
  addDatabaseFlags(program.command("refusals"))
    .description("Why calls were refused: by hour and code, and of a key the last ones.")
    .option("--key-id <id>", "of this key")
    .option("--external-id <id>", "of all keys of this owner")
    .option("--api-id <id>", "of all keys of this API")
    .addOption(sinceOption("24h"))
    .option("--workspace <id>", "of this workspace")
    .addHelpText("after", wrapped(HELP))
    .action((flags: Flags) => show(flags, io));
}

async function show({ keyId, externalId, apiId, since, workspace, output, ...flags }: Flags, io: Io): Promise<void> {
  const of = Object.entries({ keyId, externalId, apiId }).filter(([, id]) => id !== undefined);
  if (of.length !== 1) throw usage("give one of --key-id, --external-id and --api-id");
  await withStore(flags, async (store) => {
    const options = { clock: io.now, ...(workspace !== undefined && { workspaceId: workspace }) };
    const found = await createAnalytics(store, options).refusals(Object.fromEntries(of), { from: io.now() - since });
    if (found.hours.length === 0) await requireFound(store, { keyId, externalId, apiId, workspace });
    if (output === "json") await io.stdout.write(`${pretty(found)}\n`);
    else if (found.hours.length === 0) await note(io, "nothing was refused, or nothing was counted");
    else await io.stdout.write(toText(io, found));
  });
}

function toText(io: Io, { hours, last }: Refusals): string {
  const rows = hours.map((hour) => `${at(hour.time, 16)}  ${hour.code.padEnd(24)}  ${count(hour.count)}\n`);
  const lines = last.map((one) => {
    const start = `${at(one.time, 19)}  ${one.code}  `;
    return `${start}${hang(io, start.length, oneLine(reasonOf(one)))}\n`;
  });
  return [...rows, ...(lines.length > 0 ? ["\nThe last ones:\n", ...lines] : [])].join("");
}

function reasonOf({ time: _, code, ...rest }: Refusal): string {
  const parts = Object.entries(rest).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return parts.join(" ");
}

const at = (time: number, length: number): string => new Date(time).toISOString().slice(0, length);
