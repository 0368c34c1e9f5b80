/** `keystile keys list|get|create|disable|enable|revoke`, on a store. */
import { type Command, Option } from "commander";
import type { Refill } from "../../contracts/types.js";
import { changeAllKeys } from "../../keyring/keys/change-keys.js";
import type * as R from "../../keyring/schemas/requests.js";
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { refill as refillSchema } from "../../keyring/schemas/credits.js";
import { toJsonSchema } from "../../keyring/schemas/json-schema.js";
import { LISTED_STATES } from "../../lib/key-state.js";
import { shapeOf } from "../client/flags.js";
import { addDatabaseFlags, type DatabaseFlags, withKeyring } from "../database/database.js";
import { startProgress } from "../import/progress.js";
import { EXIT, failure, usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import { readJson } from "../io/input.js";
import type { Io } from "../io/io.js";
import { collect, toInteger, toTime } from "../io/parsers.js";
import { addLimit, type Columns, type ListFlags, writeList } from "../io/table.js";
import { hang, note, oneLine, pretty } from "../io/text.js";

/** Ids that one call takes. */
const MAX_IDS = 100;
const REFILL = shapeOf(toJsonSchema(refillSchema));

type ListKeysFlags = DatabaseFlags & ListFlags & Omit<R.SearchKeysRequestBody, "limit" | "cursor" | "maxAge">;
interface CreateFlags
  extends DatabaseFlags, Pick<R.CreateKeyRequestBody, "apiId" | "name" | "prefix" | "externalId" | "expires"> {
  readonly permission?: readonly string[];
  readonly role?: readonly string[];
  readonly credits?: number;
  readonly refill?: string;
}

export function addKeysCommand(program: Command, io: Io): void {
  const keys = program.command("keys").description("Keys in a store.");
  addLimit(addDatabaseFlags(keys.command("list")))
    .option("--api-id <id>", "only keys of this API")
    .option("--external-id <id>", "only keys of this owner")
    .option("--search <text>", "part of the id, the first characters, the name or the external id")
    .addOption(
      new Option("--state <state>", "only keys in this state; without it all that are not deleted").choices(
        LISTED_STATES,
      ),
    )
    .option("--expires-from <time>", "only keys that expire then or later", toTime)
    .option("--expires-before <time>", "only keys that expire before then; with the above: between the two", toTime)
    .addOption(
      new Option("--order <order>", "newest first, or what ends, was used or runs out first")
        .choices(["made", "expires", "lastUsed", "credits"])
        .default("made"),
    )
    .description("List keys: id, API, first characters, state, owner, name.")
    .addHelpText(
      "after",
      wrapped(
        "\nExamples:\n  $ keystile keys list --db keys.db --search acme\n  $ keystile keys list --db keys.db --state active --order expires\n  $ keystile keys list --db keys.db --state deleted --search acme",
      ),
    )
    .action((flags: ListKeysFlags) => list(io, flags));
  addDatabaseFlags(keys.command("get"))
    .argument("<keyId>", "its id")
    .description("Show a key, and the API that it belongs to; of a deleted one who deleted it, and when.")
    .addHelpText("after", wrapped("\nExample:\n  $ keystile keys get --db keys.db key_…"))
    .action(async (keyId: string, flags: DatabaseFlags) => {
      const key = await withKeyring(flags, (keyring) => keyring.getKey({ keyId, includeDeleted: true }));
      await io.stdout.write(flags.output === "json" ? `${pretty(key)}\n` : toText(io, key));
    });
  addDatabaseFlags(keys.command("create"))
    .requiredOption("--api-id <id>", "the API, as `keystile apis list` shows it")
    .option("--name <text>", "for people")
    .option("--prefix <text>", "before the random part")
    .option("--external-id <id>", "your own id of its owner")
    .option("--permission <permission>", "what it is granted; may be repeated", collect)
    .option("--role <name>", "a role that exists; may be repeated", collect)
    .option("--credits <number>", "its balance; default: unlimited", toInteger(0, Number.MAX_SAFE_INTEGER))
    .option("--refill <json>", `what its balance is refilled by; with --credits (JSON, @file or -${REFILL})`)
    .option("--expires <time>", "Unix milliseconds or an ISO 8601 date", toTime)
    .description("Make a key and show it this once.")
    .addHelpText(
      "after",
      wrapped("\nExample:\n  $ keystile keys create --db keys.db --api-id api_… --name 'first key'"),
    )
    .action((flags: CreateFlags) => create(io, flags));
  for (const change of CHANGES) addChange(io, keys, change);
}

interface Change {
  readonly name: string;
  readonly action: R.ChangeKeysRequestBody["action"];
  readonly done: string;
  readonly effect: string;
}
const CHANGES: readonly Change[] = [
  { name: "disable", action: "disable", done: "disabled", effect: "every verification of them is DISABLED" },
  { name: "enable", action: "enable", done: "enabled", effect: "they verify again" },
  { name: "revoke", action: "delete", done: "revoked", effect: "they are NOT_FOUND from the next request on" },
];

interface ChangeFlags extends DatabaseFlags, Omit<R.ChangeKeysRequestBody, "action" | "keyIds" | "limit"> {}

function addChange(io: Io, keys: Command, change: Change): void {
  const { name, effect } = change;
  addDatabaseFlags(keys.command(name))
    .argument("[keyIds...]", "ids, as `list` shows them, in place of what selects keys")
    .option("--api-id <id>", "the keys of this API")
    .option("--external-id <id>", "the keys of this owner")
    .option("--search <text>", "those that `list --search` shows")
    .addOption(
      new Option("--state <state>", "those in this state").choices(LISTED_STATES.filter((s) => s !== "deleted")),
    )
    .option("--expires-before <time>", "those that expire before: Unix milliseconds or an ISO 8601 date", toTime)
    .option("--dry-run", "only say what would be changed")
    .option("--cursor <cursor>", "go on after the batch that named it")
    .option("--reason <text>", "why, for the audit trail")
    .description(`${name[0]?.toUpperCase()}${name.slice(1)} keys: ${effect}.`)
    .addHelpText(
      "after",
      wrapped(
        `\nExamples:\n  $ keystile keys ${name} --db keys.db key_…\n  $ keystile keys ${name} --db keys.db --external-id acme --dry-run`,
      ),
    )
    .action((keyIds: readonly string[], flags: ChangeFlags) => changeMany(io, change, keyIds, flags));
}

/** By batches of 100 ids, or of what a filter finds; each batch is one step. */
async function changeMany(io: Io, change: Change, keyIds: readonly string[], flags: ChangeFlags): Promise<void> {
  const { db, store, schema, output, ...filter } = flags;
  const { action, done } = change;
  const batches: R.ChangeKeysRequestBody[] = keyIds.length === 0 ? [{ ...filter, action }] : [];
  for (let start = 0; start < keyIds.length; start += MAX_IDS)
    batches.push({ ...filter, action, keyIds: keyIds.slice(start, start + MAX_IDS) });
  const counts = { changed: 0, unchanged: 0, notFound: 0 };
  const progress = startProgress(io, change.name, 0);
  await withKeyring(flags, async (keyring) => {
    for (const batch of batches)
      for await (const { data, pagination } of changeAllKeys(keyring, batch)) {
        for (const { keyId, outcome } of data) {
          counts[outcome]++;
          if (output === "json") await io.stdout.write(`${JSON.stringify({ keyId, outcome })}\n`);
          else if (outcome === "changed") await io.stdout.write(`${flags.dryRun ? "would be " : ""}${done} ${keyId}\n`);
        }
        progress.update(counts.changed + counts.unchanged);
        if (pagination.cursor !== undefined && output === "json")
          await io.stdout.write(`${JSON.stringify({ cursor: pagination.cursor })}\n`);
      }
  }).finally(() => progress.stop());
  const { changed, unchanged, notFound } = counts;
  const tense = flags.dryRun ? "would be " : "";
  await note(io, `${changed} ${tense}${done}, ${unchanged} unchanged, ${notFound} not found`);
  if (notFound > 0) throw failure(EXIT.no, "not every key was found");
  if (changed + unchanged === 0 && namesKeys(filter)) throw failure(EXIT.no, "no key was found");
}

/**
 * Whether a filter is of an owner or a text, which may be misspelt. An API that is not there is refused, and there may
 * be no keys in a state; what is before a cursor was found by an earlier call.
 */
export const namesKeys = ({ externalId, search, cursor }: Partial<R.ChangeKeysRequestBody>): boolean =>
  (externalId ?? search) !== undefined && cursor === undefined;

async function list(io: Io, flags: ListKeysFlags): Promise<void> {
  const { db, store, schema, output, limit, ...given } = flags;
  // What expires next, and not what has expired, unless that is asked for.
  const isFromNow =
    given.order === "expires" && (given.state ?? given.expiresFrom ?? given.expiresBefore) === undefined;
  // Later pages are of the order that the first one was of.
  const wanted = { ...given, ...(isFromNow && { expiresFrom: Date.now() }), maxAge: 60_000 };
  const columns: Columns<KeyResponseData> = {
    KEY: ({ keyId }) => keyId,
    API: ({ apiId }) => apiId,
    START: ({ start }) => `${start}…`,
    STATE: ({ state, disabledBy }) => (disabledBy === undefined ? state : `${state} (${disabledBy})`),
    OWNER: ({ identity }) => identity?.externalId ?? "-",
    NAME: ({ name }) => name ?? "-",
  };
  let found = 0;
  await withKeyring(flags, (keyring) => {
    const read = async (page: object) => {
      const answer = await keyring.searchKeys({ ...wanted, ...page });
      found += answer.data.length;
      return answer;
    };
    return writeList(io, { output, limit }, read, columns);
  });
  if (found === 0 && wanted.search !== undefined && wanted.state === undefined)
    await note(io, "no key was found; deleted ones are listed with --state deleted");
}

async function create(io: Io, flags: CreateFlags): Promise<void> {
  const { db, store, schema, output, permission, role, credits: remaining, refill: terms, ...given } = flags;
  if (terms !== undefined && remaining === undefined)
    throw usage("--refill: goes with --credits, the balance that it refills");
  const refill = terms !== undefined && { refill: (await readJson(io, "--refill", terms)) as Refill };
  const body = {
    ...given,
    ...(permission !== undefined && { permissions: permission }),
    ...(role !== undefined && { roles: role }),
    ...(remaining !== undefined && { credits: { remaining, ...refill } }),
  };
  const data = await withKeyring(flags, (keyring) => keyring.createKey(body));
  try {
    await io.reveal(output === "json" ? `${pretty(data)}\n` : `${data.keyId}\n${data.key}\n`);
  } catch (error) {
    await withKeyring(flags, (keyring) => keyring.deleteKey({ keyId: data.keyId, permanent: true }));
    throw error;
  }
  await note(io, "the key is shown this once; only its digest is kept");
}

/** A line for each field, in words where it has parts. */
function toText(io: Io, key: KeyResponseData): string {
  const time = (value: unknown): string => new Date(value as number).toISOString();
  const TIMES = new Set(["createdAt", "updatedAt", "lastUsedAt", "expires", "deletedAt"]);
  const shown = Object.entries(key).map(([name, value]: [string, unknown]) => {
    const text = TIMES.has(name) ? time(value) : typeof value === "string" ? value : JSON.stringify(value);
    return `${`${name}:`.padEnd(14)}${hang(io, 14, oneLine(text))}\n`;
  });
  return shown.join("");
}
