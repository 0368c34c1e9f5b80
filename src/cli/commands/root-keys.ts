/**
 * `keystile root-keys create|list|revoke`, on a store: no root key can create another over HTTP (contract 5).
 */
import type { Command } from "commander";
import type { Explained } from "../../keyring/schemas/requests.js";
import type { RootKeyData } from "../../keyring/schemas/responses.js";
import type { CreateRootKeyRequestBody } from "../../keyring/schemas/service-requests.js";
import { nearest } from "../../lib/nearest.js";
import { addDatabaseFlags, allPermissions, type DatabaseFlags, withKeyring } from "../database/database.js";
import { usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { collect, toTime } from "../io/parsers.js";
import { addLimit, type Columns, type ListFlags, writeList } from "../io/table.js";
import { note, pretty } from "../io/text.js";

const CREATE_HELP = `
The root key is printed once: only its digest is kept. Name only the permissions that its bearer needs.

Examples:
  $ keystile root-keys create --db keys.db --name gateway --permission 'api.*.verify_key'
  $ keystile root-keys create --db keys.db --name operations --all`;
const LIST_HELP = "\nExample:\n  $ keystile root-keys list --db keys.db";
const REVOKE_HELP = `
Servers on the same file refuse it from their next request on, those on the same PostgreSQL within two seconds.

Example:
  $ keystile root-keys revoke --db keys.db rk_…`;

interface CreateFlags extends DatabaseFlags, Pick<CreateRootKeyRequestBody, "name" | "expires"> {
  readonly permission?: readonly string[];
  readonly all?: true;
}

export function addRootKeysCommand(program: Command, io: Io): void {
  const group = program.command("root-keys").description("Root keys in a store: what callers of the service present.");
  addDatabaseFlags(group.command("create"))
    .description("Make a root key and show it this once.")
    .option("--name <text>", "for people")
    .option("--permission <permission>", "what it may do; may be repeated", collect)
    .option("--all", "every permission there is")
    .option("--expires <time>", "Unix milliseconds or an ISO 8601 date", toTime)
    .addHelpText("after", wrapped(CREATE_HELP))
    .action((flags: CreateFlags) => create(io, flags));
  addLimit(addDatabaseFlags(group.command("list")))
    .description("List the root keys; the keys themselves are not kept.")
    .addHelpText("after", wrapped(LIST_HELP))
    .action((flags: DatabaseFlags & ListFlags) => list(io, flags));
  addDatabaseFlags(group.command("revoke"))
    .argument("<rootKeyId>", "its id, as `list` shows it")
    .option("--reason <text>", "why, for the audit trail")
    .description("Delete a root key: it lets nobody in any more.")
    .addHelpText("after", wrapped(REVOKE_HELP))
    .action(async (rootKeyId: string, flags: DatabaseFlags & Explained) => {
      const { reason } = flags;
      const body = { rootKeyId, ...(reason !== undefined && { reason }) };
      await withKeyring(flags, (keyring) => keyring.deleteRootKey(body));
      await io.stdout.write(flags.output === "json" ? "{}\n" : `revoked ${rootKeyId}\n`);
    });
}

async function create(io: Io, flags: CreateFlags): Promise<void> {
  const { output, name, permission, all, expires } = flags;
  if (all === true && permission !== undefined) throw usage("--all cannot be combined with --permission");
  const permissions = all === true ? allPermissions() : permission;
  if (permissions === undefined) throw usage("--permission: name at least one, or use --all");
  assertAskedFor(permissions);
  // A key that expires now would have expired before its first use.
  if (expires !== undefined && expires <= io.now())
    throw usage("--expires: must be in the future; the root key would let nobody in");
  const body = { permissions, ...(name !== undefined && { name }), ...(expires !== undefined && { expires }) };
  const data = await withKeyring(flags, (keyring) => keyring.createRootKey(body));
  try {
    await io.reveal(output === "json" ? `${pretty(data)}\n` : `${data.rootKeyId}\n${data.key}\n`);
  } catch (error) {
    await withKeyring(flags, (keyring) => keyring.deleteRootKey({ rootKeyId: data.rootKeyId }));
    throw error;
  }
  await note(io, "the root key is shown this once; keep it where nobody else can read it");
}

/** Of `api.*.verify_key` the type and the action, of a resource name the action alone. */
const ACTION = /^(?:([a-z]+)\.[^.#:]+\.|.*#)([a-zA-Z0-9_-]+)$/;

/** Refuses actions that no operation asks for, which grant nothing. What is malformed the keyring refuses. */
function assertAskedFor(permissions: readonly string[]): void {
  const lines = permissions.flatMap((permission, i) => {
    const [, type = "", action] = ACTION.exec(permission) ?? [];
    const asked = allPermissions().filter((one) => one.startsWith(type));
    const actions = asked.map((one) => one.slice(one.lastIndexOf(".") + 1));
    if (action === undefined || actions.length === 0 || actions.includes(action)) return [];
    const near = nearest(action, actions);
    const fix = near === undefined ? "" : `; did you mean ${near}?`;
    return [`body.permissions[${i}] (--permission): its action is one that no operation asks for${fix}`];
  });
  if (lines.length > 0) throw usage("the request is not valid", lines);
}

function list(io: Io, flags: DatabaseFlags & ListFlags): Promise<void> {
  const now = io.now();
  const columns: Columns<RootKeyData> = {
    "ROOT KEY": ({ rootKeyId }) => rootKeyId,
    START: ({ start }) => `${start}…`,
    STATE: ({ enabled, expires }) => {
      const state = !enabled ? "disabled" : expires !== undefined && now > expires ? "expired" : "enabled";
      return state + (expires === undefined ? "" : ` until ${new Date(expires).toISOString()}`);
    },
    MADE: ({ createdAt }) => new Date(createdAt).toISOString().slice(0, 10),
    NAME: ({ name }) => name ?? "-",
    PERMISSIONS: ({ permissions }) => permissions.join(" "),
  };
  return withKeyring(flags, (keyring) => writeList(io, flags, (page) => keyring.listRootKeys(page), columns));
}
