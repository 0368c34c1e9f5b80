/** `keystile schema`: the script that makes the tables, and the way back to those of an earlier keystile. */
import { type Command, Option } from "commander";
import { downgradeScript, SCHEMA_VERSION, setUpScript } from "../../stores/postgres/schema.js";
import { EARLIEST_VERSION } from "../../stores/sqlite/connection/schema.js";
import { downgradeFile } from "../../stores/sqlite/backup/downgrade.js";
import { assertDatabase } from "../database/database.js";
import { schemaOption } from "../database/postgres.js";
import { usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { toInteger, toPath } from "../io/parsers.js";

const HELP = `
For postgres it prints a script, which may run any number of times and on any number of nodes at once; it makes what is not there. Run
it as a role that may create in the database; the service then needs none of that. With --to it prints the script that leads back.

For sqlite it takes the file back to the tables of an earlier keystile, named by their version (docs/stability.md): stop every process,
back up, run this with the later keystile, then start the earlier one. It changes nothing, and the exit code is 1, where the earlier one
would lose or misread rows.

Examples:
  $ keystile schema postgres | psql postgres://admin@db/app
  $ keystile schema sqlite --db keys.db --to ${EARLIEST_VERSION}`;

export function addSchemaCommand(program: Command, io: Io): void {
  program
    .command("schema <engine>")
    .description("Print the SQL that makes the tables, or take them back to an earlier version: postgres, sqlite.")
    .addOption(schemaOption())
    .addOption(new Option("--db <file>", "of sqlite: the database file").argParser(toPath))
    .addOption(
      new Option("--to <version>", "take the tables back to this version").argParser(toInteger(1, MAX_VERSION)),
    )
    .addHelpText("after", wrapped(HELP))
    .action(async (engine: string, { schema, db, to }: SchemaFlags) => {
      if (engine === "postgres") await io.stdout.write(postgresScript(schema, to));
      else if (engine === "sqlite") await io.stdout.write(takeFileBack(db, to));
      else throw usage(`the engines are postgres and sqlite; not ${engine.slice(0, 40)}`);
    });
}

const MAX_VERSION = 1_000;

interface SchemaFlags {
  readonly schema: string;
  readonly db?: string;
  readonly to?: number;
}

function postgresScript(schema: string, to: number | undefined): string {
  if (to === undefined) return setUpScript(schema);
  if (to > SCHEMA_VERSION) throw usage(`--to: this keystile knows versions up to ${SCHEMA_VERSION}`);
  try {
    return downgradeScript(schema, to);
  } catch (error) {
    throw error instanceof RangeError ? usage(`--to: ${error.message}`) : error;
  }
}

function takeFileBack(db: string | undefined, to: number | undefined): string {
  if (db === undefined || to === undefined) throw usage("sqlite needs --db and --to; opening a file makes its tables");
  assertDatabase(db);
  return `${db}: version ${downgradeFile(db, to)} before, ${to} now\n`;
}
