/** `keystile api <group> <operation>`: one command per operation, from the same table as the routes (contract 4.2). */
import { type Command, Option } from "commander";
import { IDEMPOTENCY_KEY } from "../../http/idempotency-key.js";
import { describePermissions } from "../../http/operations/access.js";
import type { ChangeKeysRequestBody } from "../../keyring/schemas/requests.js";
import { OPERATIONS } from "../../http/operations/index.js";
import type { Operation } from "../../http/operations/operation.js";
import { addFlags, flagsOf, type Flag } from "../client/flags.js";
import { VERDICTS } from "../client/print.js";
import { readBody, readCredential, send } from "../client/send.js";
import { DEFAULT_CONFIG, DEFAULT_HOST, DEFAULT_PORT, type GlobalFlags, readSettings } from "../client/settings.js";
import { API_URL_VARIABLE, ROOT_KEY_VARIABLE } from "../io/environment.js";
import { type CommandResult, toKebab, usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { toIdempotencyKey } from "../io/parsers.js";
import { namesKeys } from "./keys.js";
import { addMigrateKeys } from "./migrate-keys.js";
import type { Json } from "../../contracts/types.js";
import { sampleOf } from "../../http/docs/samples.js";

export function addApiCommand(program: Command, io: Io, result: CommandResult): void {
  const api = program.command("api").description("Call the service: every operation of it is a command here.");
  addGlobalFlags(api);
  const groups = new Map<string, Command>();
  for (const operation of Object.values(OPERATIONS)) {
    const [name = "", verb = ""] = operation.name.split(".");
    const group = groups.get(name) ?? api.command(toKebab(name)).description(`Operations ${name}.*`);
    groups.set(name, group);
    addOperation(group.command(toKebab(verb)), operation, io, result);
  }
  api
    .command("liveness")
    .description("Asks whether the server is there. Needs no root key.\nGET /v2/liveness")
    .summary("Asks whether the server is there.")
    .addHelpText("after", wrapped("\nExample:\n  $ keystile api liveness"))
    .action(async (_options, command: Command) => {
      const flags = command.optsWithGlobals<GlobalFlags>();
      if (flags.body !== undefined) throw usage("--body: liveness takes no request");
      const { apiUrl } = await readSettings(io, flags);
      result.exitCode = await send(io, flags, { apiUrl }, { name: "liveness" });
    });
  api.addHelpText(
    "after",
    wrapped(() => `\nOperations:\n${listOperations([...groups.values()])}`),
  );
}

/** One line per operation, by group. */
function listOperations(groups: readonly Command[]): string {
  const lines = groups.map((group) =>
    group.commands.map((one) => [`${group.name()} ${one.name()}`, one.summary()] as const),
  );
  const width = Math.max(...lines.flat().map(([name]) => name.length));
  return lines
    .map((group) => group.map(([name, summary]) => `  ${name.padEnd(width)}  ${summary}`).join("\n"))
    .join("\n\n");
}

function addGlobalFlags(api: Command): void {
  api
    .option(
      "--root-key <key>",
      `the root key, @file or - (stdin); default: $${ROOT_KEY_VARIABLE}, which other users of the machine do not see in a process list`,
    )
    .option(
      "--api-url <url>",
      `address of the service; default: $${API_URL_VARIABLE}, that of the config file, else http://${DEFAULT_HOST}:${DEFAULT_PORT}`,
    )
    .option("--config <file>", `JSON file with "apiUrl" and "rootKey"; default: ~/${DEFAULT_CONFIG}`)
    .addOption(
      new Option(
        "--output <form>",
        "json: the full envelope {meta, data}; default: the request id, then the data",
      ).choices(["json"]),
    )
    .option("--body <json>", "the whole request as JSON, @file or - (stdin), in place of the flags that build it");
}

const KEY = "idempotencyKey";

function addIdempotencyKey(command: Command): void {
  const about = "names this call, such as by the id of a webhook's event: a repeat changes nothing again";
  const flag = new Option("--idempotency-key <text>", `${about} (1–255 characters)`);
  command.addOption(flag.helpGroup("Header:").argParser(toIdempotencyKey));
}

function addOperation(command: Command, operation: Operation, io: Io, result: CommandResult): void {
  const flags = flagsOf(operation.request);
  const path = `${toKebab(operation.name.split(".")[0] ?? "")} ${command.name()}`;
  const example = flags.length > 0 ? exampleOf(path, flags) : `keystile api ${path} --body @request.json`;
  command
    .description(`${operation.summary}\nPOST /v2/${operation.name}`)
    .summary(operation.summary)
    .addHelpText(
      "after",
      wrapped(`\nThe root key needs ${describePermissions(operation, String)}\n\nExample:\n  $ ${example}`),
    );
  addFlags(command, flags);
  if (IDEMPOTENCY_KEY in (operation.headers ?? {})) addIdempotencyKey(command);
  if (operation.name === "keys.migrateKeys") return addMigrateKeys(command, operation, flags, io, result);
  command.action(async (given: Readonly<Record<string, unknown>> & { readonly [KEY]?: string }) => {
    const globals = command.optsWithGlobals<GlobalFlags>();
    const body = await readBody(io, globals, flags, given);
    // Whether the service takes any external id is for it to say.
    operation.validate(body, "any");
    const needs = VERDICTS.filter((field) => operation.answer.required?.includes(field) === true);
    const settings = await readCredential(io, globals);
    const request = { name: operation.name, body: JSON.stringify(body), idempotencyKey: given[KEY] };
    const isNamed = operation.name === "keys.changeKeys" && namesKeys(body as ChangeKeysRequestBody);
    result.exitCode = await send(io, globals, settings, request, needs, isNamed ? "key" : undefined);
  });
}

/* Example command lines for the help of each operation. A test checks that every example is a valid request. */

/** Optional flags that examples show. */
const SHOWN_OPTIONAL: ReadonlySet<string> = new Set(["value"]);
/** Of commands that need one of several flags, none of which is required by itself: the one that is shown. */
const ONE_OF: Readonly<Record<string, string>> = {
  "keys change-keys": "externalId",
  "analytics get-refusals": "keyId",
  "analytics get-statement": "externalId",
};

/** A command line with each required flag. */
function exampleOf(command: string, flags: readonly Flag[]): string {
  const shown = flags.filter(
    ({ name, isRequired }) => isRequired || SHOWN_OPTIONAL.has(name) || ONE_OF[command] === name,
  );
  const given = shown.map(({ name, flag, schema }) => `${flag} ${argument(sampleOf(schema, name, true))}`);
  return ["keystile", "api", command, ...given].join(" ");
}

function argument(sample: Json): string {
  const text = typeof sample === "string" ? sample : JSON.stringify(sample);
  if (typeof sample === "object") return `'${text}'`;
  return text.includes(" ") ? `"${text}"` : text;
}
