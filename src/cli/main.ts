/** `main(argv, io)`: the command line as a function (contract 4.2). Commands are in `commands/`. */
import { createRequire } from "node:module";
import { Command, CommanderError } from "commander";
import { addAnalyticsCommand } from "./commands/analytics.js";
import { addApiCommand } from "./commands/api.js";
import { addApisCommand, addMigrationsCommand, addNamespacesCommand } from "./commands/apis.js";
import { addBackupCommands } from "./commands/backup.js";
import { addConsoleCommand } from "./commands/console.js";
import { addCopyCommand } from "./commands/copy.js";
import { addDemoCommand } from "./commands/demo.js";
import { addDoctorCommand } from "./commands/doctor.js";
import { addImportCommand } from "./commands/import.js";
import { addKeysCommand } from "./commands/keys.js";
import { addRefusalsCommand } from "./commands/refusals.js";
import { addRootKeysCommand } from "./commands/root-keys.js";
import { addSchemaCommand } from "./commands/schema.js";
import { addStatementCommand } from "./commands/statement.js";
import { addServeCommand } from "./commands/serve.js";
import { refuseMisspelt } from "./io/environment.js";
import { type CommandResult, EXIT, type ExitCode, toFailure } from "./io/failures.js";
import { DEFAULT_WIDTH, wrapped } from "./io/help.js";
import type { Io } from "./io/io.js";
import { note, paint, stripControlChars } from "./io/text.js";

const EXIT_CODES = `
Exit codes:
  0  done
  1  the answer is no, or only a part was done (a key that is not valid, keys that failed to migrate, nothing found)
  2  the command line or the request is wrong
  3  the server, the network or the database failed, or the server refused the root key

A key in a new file, for a program that guards a route as the README shows:
  $ keystile apis create --db keys.db --api-id api_documents documents
  $ keystile keys create --db keys.db --api-id api_documents --permission documents.read

Examples:
  $ keystile demo
  $ keystile serve --db keys.db
  $ keystile serve --store postgres://keystile@db.internal/app --limiter redis://redis.internal
  $ keystile api keys create-key --api-id api_… --name "first key"
  $ keystile api keys verify-key --key sk_… --permissions "documents.read AND billing.view"
  $ keystile console --db keys.db
  $ keystile doctor --db keys.db`;

/**
 * Runs one command line.
 * @param argv arguments after the program's name
 * @returns the exit code; never rejects
 */
export async function main(argv: readonly string[], io: Io): Promise<ExitCode> {
  const result: CommandResult = { exitCode: EXIT.done };
  const pending: Promise<void>[] = [];
  const program = new Command("keystile")
    .description("API keys in a SQLite file or in PostgreSQL: a service, its client, and tools for the file.")
    .version(readVersion())
    .exitOverride()
    .showHelpAfterError("(add --help for help)")
    .configureOutput({
      writeOut: (text) => void pending.push(io.stdout.write(text)),
      writeErr: (text) => void pending.push(io.stderr.write(text)),
      getOutHelpWidth: () => io.stdout.columns ?? DEFAULT_WIDTH,
      outputError: (text, write) => write(stripControlChars(withoutValues(text))),
    })
    // Commander leaves columns below 40 unwrapped, so that a terminal of 60 got lines of 220.
    .configureHelp({ showGlobalOptions: true, minWidthToWrap: 20 })
    .addHelpText("after", wrapped(EXIT_CODES));
  addApiCommand(program, io, result);
  refuseMisspelt(program, [addServeCommand(program, io), addConsoleCommand(program, io)], io);
  addMigrationsCommand(program, io);
  addImportCommand(program, io, result);
  addRootKeysCommand(program, io);
  addNamespacesCommand(program, io);
  addApisCommand(program, io);
  addKeysCommand(program, io);
  addAnalyticsCommand(program, io);
  addRefusalsCommand(program, io);
  addStatementCommand(program, io);
  addBackupCommands(program, io, result);
  addDoctorCommand(program, io, result);
  addCopyCommand(program, io, result);
  addSchemaCommand(program, io);
  addDemoCommand(program, io, result);
  try {
    await program.parseAsync(argv, { from: "user" });
  } catch (error) {
    result.exitCode = await report(error, io);
  }
  try {
    await Promise.all(pending);
  } catch (error) {
    result.exitCode = await report(error, io);
  }
  return result.exitCode;
}

/** Resolved by the package's own name, since the path to package.json differs before and after the build. */
function readVersion(): string {
  return (createRequire(import.meta.url)("keystile/package.json") as { readonly version: string }).version;
}

async function report(error: unknown, io: Io): Promise<ExitCode> {
  // Commander exits with 0 for requested help, and with 1 for help shown because a command is missing.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  const { exitCode, message, lines } = toFailure(error);
  await note(io, paint(io, io.stderr, "red", `error: ${stripControlChars(message)}`));
  for (const line of lines) await note(io, `  ${stripControlChars(line)}`);
  return exitCode;
}

/** Words that errors may repeat: keys are longer or contain digits. */
const PLAIN_WORD = /^-{0,2}[A-Za-z][A-Za-z-]{0,22}$/;

/**
 * Commander's error without quoted parts of the command line, which may be misplaced secrets: values are removed, and
 * unknown words and flags are kept only if plain, `--rootkey=…` without its value. A quote ends at the last possible
 * quotation mark.
 */
function withoutValues(text: string): string {
  return text
    .replace(/ (argument|value) '[\s\S]*' is invalid/, " $1 '…' is invalid")
    .replace(/unknown (command|option) '([\s\S]*)'/, (_, kind: string, quoted: string) => {
      const [word = "", ...value] = quoted.split("=");
      return `unknown ${kind} '${PLAIN_WORD.test(word) ? word : "…"}${value.length > 0 ? "=…" : ""}'`;
    });
}
