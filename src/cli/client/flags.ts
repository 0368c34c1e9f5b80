/** Derives the flags of a command from its request schema, and builds the request from the flags (contract 4.2). */
import { type Command, Option } from "commander";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import { toKebab, usage } from "../io/failures.js";
import { parseJson, readJson, readSecret } from "../io/input.js";
import { secondsIn } from "../../lib/seconds.js";
import type { Io } from "../io/io.js";
import { count } from "../io/text.js";
import type { GlobalFlags } from "./settings.js";

/** One property of a request as a flag. */
export interface Flag {
  /** Name of the property, which commander uses as well. */
  readonly name: string;
  readonly flag: string;
  readonly kind: "text" | "secret" | "integer" | "boolean" | "json";
  /** The word `null` means null. */
  readonly isNullable: boolean;
  readonly isRequired: boolean;
  readonly schema: JsonSchema;
}

/** Properties that are secrets, in every request. */
const SECRETS = new Set(["key"]);

/** The flags of a request; none if the body is not an object, which only `--body` can give. */
export function flagsOf(request: JsonSchema): Flag[] {
  return Object.entries(request.properties ?? {}).map(([name, schema]) => {
    const types = typeof schema.type === "string" ? [schema.type] : (schema.type ?? []);
    const isRequired = request.required?.includes(name) ?? false;
    return {
      name,
      flag: `--${toKebab(name)}`,
      kind: kindOf(name, types),
      isNullable: types.includes("null"),
      isRequired,
      schema,
    };
  });
}

function kindOf(name: string, types: readonly string[]): Flag["kind"] {
  if (types.includes("string")) return SECRETS.has(name) ? "secret" : "text";
  return types.includes("integer") ? "integer" : types.includes("boolean") ? "boolean" : "json";
}

const PLACEHOLDERS = {
  text: "<text>",
  secret: "<text>",
  integer: "<integer>",
  boolean: "[true|false]",
  json: "<json>",
} as const;

/**
 * Adds the flags, none of them mandatory, since `--body` may replace them: validation of the request reports what is
 * missing.
 */
export function addFlags(command: Command, flags: readonly Flag[]): void {
  for (const flag of flags) {
    const option = new Option(`${flag.flag} ${PLACEHOLDERS[flag.kind]}`, describe(flag));
    command.addOption(option.helpGroup("Flags that build the request:"));
  }
}

function describe({ schema, kind, isRequired, isNullable }: Flag): string {
  const notes = [
    ...(isRequired ? ["required"] : []),
    ...(kind === "json" ? [`JSON, @file or -${shapeOf(schema)}`] : []),
    ...(kind === "secret" ? ["@file or - keeps it out of process lists"] : []),
    ...(schema.enum !== undefined ? [schema.enum.map(String).join(" | ")] : boundsOf(schema)),
    ...(isNullable ? ["null clears it"] : []),
  ];
  return `${(schema.description ?? "").replace(/\.$/, "")}${notes.length > 0 ? ` (${notes.join("; ")})` : ""}`.trim();
}

/** The properties of JSON: `: {remaining, refill?: {interval, amount}}`; a question mark follows an optional one. */
export function shapeOf({ type, properties, required = [], items }: JsonSchema): string {
  if (items !== undefined)
    return type === "array" && items.properties !== undefined ? `: [${shapeOf(items).slice(2)}]` : "";
  if (properties === undefined) return "";
  const each = Object.entries(properties).map(
    ([name, schema]) => `${name}${required.includes(name) ? "" : "?"}${shapeOf(schema)}`,
  );
  return `: {${each.join(", ")}}`;
}

function boundsOf({ minLength, maxLength, minimum, maximum }: JsonSchema): string[] {
  if (maxLength !== undefined) return [`${minLength ?? 0}–${maxLength} characters`];
  if (minimum === undefined) return [];
  if (maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER) return [`from ${count(minimum)}`];
  return [`${count(minimum)}–${count(maximum)}`];
}

/** Builds the request from the given flags. @throws failure 2 for a value that does not fit its flag */
export async function buildBody(
  io: Io,
  flags: readonly Flag[],
  given: Readonly<Record<string, unknown>>,
): Promise<Record<string, unknown>> {
  const body: Record<string, unknown> = {};
  for (const flag of flags) {
    const value = given[flag.name];
    if (value !== undefined) body[flag.name] = await readValue(io, flag, value);
  }
  // The service takes these, as the contract has it, and says so in its log alone.
  const seconds = secondsIn(body);
  if (seconds !== undefined) throw usage(`--${toKebab(seconds.name)}: ${seconds.message}; ${seconds.fix}`);
  return body;
}

/** @throws failure 2 if several flags name stdin, which can be read only once */
export function assertOneStdin(
  { rootKey, body }: GlobalFlags,
  flags: readonly Flag[],
  given: Readonly<Record<string, unknown>>,
): void {
  const readable = flags
    .filter(({ kind }) => kind === "json" || kind === "secret")
    .map(({ flag, name }) => [flag, given[name]] as const);
  const named = [["--root-key", rootKey] as const, ["--body", body] as const, ...readable];
  const fromStdin = named.filter(([, value]) => value === "-").map(([flag]) => flag);
  if (fromStdin.length > 1) throw usage(`stdin (-) can be given to one flag only: ${fromStdin.join(", ")}`);
}

/** Names of the given flags that build the request. */
export function givenFlags(flags: readonly Flag[], given: Readonly<Record<string, unknown>>): string[] {
  return flags.filter(({ name }) => given[name] !== undefined).map(({ flag }) => flag);
}

function readValue(io: Io, { flag, kind, isNullable }: Flag, value: unknown): unknown {
  // From commander: a boolean flag without a value.
  if (value === true) return true;
  const text = value as string;
  if (isNullable && text === "null") return null;
  switch (kind) {
    case "text":
      return text;
    case "secret":
      return readSecret(io, flag, text);
    case "integer":
      return readInteger(flag, text);
    case "boolean":
      if (text !== "true" && text !== "false") throw usage(`${flag}: must be true or false`);
      return text === "true";
    case "json":
      return readJson(io, flag, text);
  }
}

/** An integer as in JSON, by value: `1.0` is 1. */
function readInteger(flag: string, text: string): number {
  const value = /^-?\d/.test(text) ? parseJson(text, flag) : undefined;
  if (!Number.isSafeInteger(value)) throw usage(`${flag}: must be an integer`);
  return value as number;
}
