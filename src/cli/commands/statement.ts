/** `keystile statement`, on a store: a customer's credits in a month, as an invoice has them. */
import { type Command, Option } from "commander";
import { createAnalytics } from "../../analytics/analytics.js";
import { statementCsv } from "../../analytics/csv.js";
import type { Statement } from "../../analytics/statement.js";
import { addDatabaseFlags, type DatabaseFlags, withStore } from "../database/database.js";
import { requireFound } from "../database/require-found.js";
import { usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { count, hang, oneLine, pretty } from "../io/text.js";

const HELP = `
Its numbers are there where calls are counted: see \`keystile analytics --help\`. With --output json all of the statement is shown, also which account had what.

Examples:
  $ keystile statement --db keys.db --external-id acme --month 2026-11
  $ keystile statement --db keys.db --external-id acme --csv > acme.csv`;

interface Flags extends DatabaseFlags {
  readonly keyId?: string;
  readonly externalId?: string;
  readonly month?: string;
  readonly csv?: true;
  readonly workspace?: string;
}

export function addStatementCommand(program: Command, io: Io): void {
  addDatabaseFlags(program.command("statement"))
    .description("The credits of an owner or a key in a month: what was there, came, was spent, and is left.")
    .option("--external-id <id>", "of this owner")
    .option("--key-id <id>", "of the accounts that this key draws on")
    .option("--month <month>", "which month, UTC, such as 2026-11; default: this one")
    .addOption(new Option("--csv", "lines with a running balance, for spreadsheets").conflicts("output"))
    .option("--workspace <id>", "of this workspace")
    .addHelpText("after", wrapped(HELP))
    .action((flags: Flags) => show(flags, io));
}

async function show({ keyId, externalId, month, csv, workspace, output, ...flags }: Flags, io: Io): Promise<void> {
  if ((keyId === undefined) === (externalId === undefined)) throw usage("give one of --external-id and --key-id");
  await withStore(flags, async (store) => {
    const options = { clock: io.now, ...(workspace !== undefined && { workspaceId: workspace }) };
    const of = keyId === undefined ? { externalId: externalId as string } : { keyId };
    const asked = month ?? new Date(io.now()).toISOString().slice(0, 7);
    const found = await createAnalytics(store, options).statement(of, asked);
    if (found.accounts.length === 0) await requireFound(store, { ...of, workspace });
    if (csv === true) await io.stdout.write(statementCsv(found, io.now()));
    else await io.stdout.write(output === "json" ? `${pretty(found)}\n` : toText(io, found));
  });
}

function toText(io: Io, found: Statement): string {
  const { opening, refills, granted, adjustments, spent, forfeited, expired, closing, unattributed } = found;
  if (found.accounts.length === 0)
    return `${found.month}\nno balance was counted: only verifiers with analytics count\n`;
  const sums = {
    ...{ opening, refills, granted, adjustments },
    ...{ spent: -spent, forfeited: -forfeited, expired: -expired, closing },
  };
  const rows = Object.entries(sums).map(([name, value]) => `${name.padEnd(12)}  ${count(value).padStart(15)}\n`);
  const lines = found.lines.map(({ time, kind, credits, grantId, reason, actor }) => {
    const more = [grantId, reason, actor].filter((one) => one !== undefined).join(", ");
    const start = `${new Date(time).toISOString().slice(0, 10)}  ${kind.padEnd(11)}  ${count(credits).padStart(15)}  `;
    return start + hang(io, start.length, oneLine(more));
  });
  const unknown =
    unattributed === 0 ? "" : `\n${count(unattributed)} of the spent credits belong to no counted call.\n`;
  const changes = lines.length === 0 ? "" : `\n${lines.map((line) => `${line.trimEnd()}\n`).join("")}`;
  return `${found.month}\n${rows.join("")}${changes}${unknown}`;
}
