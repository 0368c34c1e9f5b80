/**
 * `keystile root-keys create|list|revoke`, on the database file: no root key can create another over HTTP (contract 5).
 */
import type { Command } from "commander";
import type { RootKeyData } from "../../keyring/schemas/responses.js";
import {
  addDatabaseFlags,
  allPermissions,
  type DatabaseFlags,
  readAll,
  withKeyring,
  withKeyringFor,
} from "../database/database.js";
import { type FlagAliases, usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { collect, toTime } from "../io/parsers.js";
import { note, oneLine, pretty } from "../io/text.js";

const CREATE_HELP = `
The root key is printed once: only its digest is kept. Name only the permissions that its bearer needs.

Examples:
  $ keystile root-keys create --db keys.db --name gateway --permission 'api.*.verify_key'
  $ keystile root-keys create --db keys.db --name operations --all`;
const LIST_HELP = "\nExample:\n  $ keystile root-keys list --db keys.db";
const REVOKE_HELP = `
Servers that have the file open refuse it from their next request on.

Example:
  $ keystile root-keys revoke --db keys.db rk_…`;

const FLAG_ALIASES: FlagAliases = new Map([
  ["permissions", "--permission"],
  ["rootKeyId", "<rootKeyId>"],
]);

interface CreateFlags extends DatabaseFlags {
  readonly name?: string;
  readonly permission?: readonly string[];
  readonly all?: true;
  readonly expires?: number;
}

export function addRootKeysCommand(program: Command, io: Io): void {
  const group = program
    .command("root-keys")
    .description("Root keys of a database file: what callers of the service present.");
  addDatabaseFlags(group.command("create"))
    .description("Make a root key and show it this once.")
    .option("--name <text>", "for people")
    .option("--permission <permission>", "what it may do; may be repeated", collect)
    .option("--all", "every permission there is")
    .option("--expires <time>", "Unix milliseconds or an ISO 8601 date", toTime)
    .addHelpText("after", wrapped(CREATE_HELP))
    .action((flags: CreateFlags) => create(io, flags));
  addDatabaseFlags(group.command("list"))
    .description("List the root keys; the keys themselves are not kept.")
    .addHelpText("after", wrapped(LIST_HELP))
    .action((flags: DatabaseFlags) => list(io, flags));
  addDatabaseFlags(group.command("revoke"))
    .argument("<rootKeyId>", "its id, as `list` shows it")
    .description("Delete a root key: it lets nobody in any more.")
    .addHelpText("after", wrapped(REVOKE_HELP))
    .action(async (rootKeyId: string, { db, output }: DatabaseFlags) => {
      await withKeyringFor(db, FLAG_ALIASES, (keyring) => keyring.deleteRootKey({ rootKeyId }));
      await io.stdout.write(output === "json" ? "{}\n" : `revoked ${rootKeyId}\n`);
    });
}

async function create(io: Io, { db, output, name, permission, all, expires }: CreateFlags): Promise<void> {
  if (all === true && permission !== undefined) throw usage("--all cannot be combined with --permission");
  const permissions = all === true ? allPermissions() : permission;
  if (permissions === undefined) throw usage("--permission: name at least one, or use --all");
  // A key that expires now would have expired before its first use.
  if (expires !== undefined && expires <= io.now())
    throw usage("--expires: must be in the future; the root key would let nobody in");
  const body = { permissions, ...(name !== undefined && { name }), ...(expires !== undefined && { expires }) };
  const data = await withKeyringFor(db, FLAG_ALIASES, (keyring) => keyring.createRootKey(body));
  try {
    await io.reveal(output === "json" ? `${pretty(data)}\n` : `${data.rootKeyId}\n${data.key}\n`);
  } catch (error) {
    await withKeyringFor(db, FLAG_ALIASES, (keyring) => keyring.deleteRootKey({ rootKeyId: data.rootKeyId }));
    throw error;
  }
  await note(io, "the root key is shown this once; keep it where nobody else can read it");
}

async function list(io: Io, { db, output }: DatabaseFlags): Promise<void> {
  const rows = await withKeyring(db, (keyring) => readAll(keyring.listRootKeys));
  if (output === "json") return io.stdout.write(`${pretty(rows)}\n`);
  const now = io.now();
  for (const row of rows) await io.stdout.write(`${oneLine(toLine(row, now))}\n`);
  if (rows.length === 0) await note(io, "there are none");
}

function toLine(
  { rootKeyId, start, name, permissions, expires, enabled, createdAt }: RootKeyData,
  now: number,
): string {
  const state = !enabled ? "disabled" : expires !== undefined && now > expires ? "expired" : "enabled";
  const until = expires === undefined ? "" : ` until ${new Date(expires).toISOString()}`;
  const made = new Date(createdAt).toISOString().slice(0, 10);
  return [rootKeyId, `${start}…`, state + until, made, name ?? "-", permissions.join(" ")].join("  ");
}
