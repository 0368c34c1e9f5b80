/** Options of a command from environment variables: what the command line does not give. */
import type { Command, Option } from "commander";
import { nearest } from "../../lib/nearest.js";
import { usage } from "./failures.js";
import type { Io } from "./io.js";
import { isCollector } from "./parsers.js";

const PREFIX = "KEYSTILE_";
/** Variables of `keystile api`. */
export const ROOT_KEY_VARIABLE = `${PREFIX}ROOT_KEY`;
export const API_URL_VARIABLE = `${PREFIX}API_URL`;

/** The variable of an option: `KEYSTILE_REQUEST_LIMIT` of `--request-limit`. */
export function variableOf({ long = "" }: Option): string {
  return `${PREFIX}${long.slice(2).replaceAll("-", "_").toUpperCase()}`;
}

/** What gave an option its value, in words: its flag or its variable; `undefined`: nothing, it has its default. */
export function givenAs(command: Command, name: string): string | undefined {
  const option = command.options.find((one) => one.attributeName() === name);
  const source = command.getOptionValueSource(name);
  if (option === undefined || source === undefined || source === "default") return undefined;
  return source === "env" ? variableOf(option) : option.long;
}

/**
 * Refuses a variable whose name misspells that of a variable that commands read, before any command runs: it would be
 * ignored without a word. Any other name may be another program's.
 * @param reading the commands whose options are read from the environment
 */
export function refuseMisspelt(program: Command, reading: readonly Command[], { env }: Io): void {
  program.hook("preAction", () => {
    const known = new Set([ROOT_KEY_VARIABLE, API_URL_VARIABLE, ...reading.flatMap(variablesOf)]);
    const lines = Object.keys(env).flatMap((name) => {
      if (!name.startsWith(PREFIX) || known.has(name)) return [];
      const meant = nearest(name.slice(PREFIX.length), suffixes(known));
      return meant === undefined ? [] : [`${name}; did you mean ${PREFIX}${meant}?`];
    });
    if (lines.length > 0)
      throw usage(`no command reads these variables; the known ones are ${[...known].join(", ")}`, lines);
  });
}

const variablesOf = ({ options }: Command): string[] => options.map(variableOf);
const suffixes = (names: Iterable<string>): string[] => [...names].map((name) => name.slice(PREFIX.length));

/**
 * Fills in the options of a command from the environment before it runs. Flags take `1` and `true`, `0` and `false`;
 * options that may be repeated take a list with commas.
 */
export function readEnvironment(command: Command, io: Io): Command {
  return command.hook("preAction", () => {
    for (const option of command.options) {
      const name = option.attributeName();
      const text = io.env[variableOf(option)];
      if (text === undefined || givenAs(command, name) !== undefined) continue;
      const value = option.isBoolean() ? readFlag(option, text) : readValue(option, text);
      if (value !== undefined) command.setOptionValueWithSource(name, value, "env");
    }
  });
}

function readFlag(option: Option, text: string): true | undefined {
  if (["1", "true"].includes(text)) return true;
  if (["0", "false"].includes(text)) return undefined;
  throw usage(`${variableOf(option)}: must be 1 or 0`);
}

function readValue(option: Option, text: string): unknown {
  const parse = option.parseArg as ((value: string, previous: unknown) => unknown) | undefined;
  if (parse === undefined) return text;
  try {
    if (!isCollector(parse)) return parse(text, undefined);
    return text.split(",").reduce<unknown>((before, part) => parse(part.trim(), before), undefined);
  } catch (error) {
    throw usage(`${variableOf(option)}: ${(error as Error).message}`);
  }
}
