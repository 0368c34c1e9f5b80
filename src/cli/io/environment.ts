/** Options of a command from environment variables: what the command line does not give. */
import type { Command, Option } from "commander";
import { usage } from "./failures.js";
import type { Io } from "./io.js";
import { isCollector } from "./parsers.js";

/** The variable of an option: `KEYSTILE_REQUEST_LIMIT` of `--request-limit`. */
export function variableOf({ long = "" }: Option): string {
  return `KEYSTILE_${long.slice(2).replaceAll("-", "_").toUpperCase()}`;
}

/** What gave an option its value, in words: its flag or its variable; `undefined`: nothing, it has its default. */
export function givenAs(command: Command, name: string): string | undefined {
  const option = command.options.find((one) => one.attributeName() === name);
  const source = command.getOptionValueSource(name);
  if (option === undefined || source === undefined || source === "default") return undefined;
  return source === "env" ? variableOf(option) : option.long;
}

/**
 * Fills in the options of a command from the environment before it runs. Flags take `1` and `true`, `0`, `false` and
 * nothing; options that may be repeated take a list with commas.
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
  if (["0", "false", ""].includes(text)) return undefined;
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
