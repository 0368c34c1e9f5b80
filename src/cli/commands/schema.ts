/** `keystile schema`: prints the script that makes the tables. */
import type { Command } from "commander";
import { setUpScript } from "../../stores/postgres/index.js";
import { schemaOption } from "../database/postgres.js";
import { usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";

const HELP = `
The script may run any number of times and on any number of nodes at once; it makes what is not there. Run it as a role that may create
in the database; the service then needs none of that.

Example:
  $ keystile schema postgres | psql postgres://admin@db/app`;

export function addSchemaCommand(program: Command, io: Io): void {
  program
    .command("schema <engine>")
    .description("Print the SQL that makes the tables of an engine: postgres.")
    .addOption(schemaOption())
    .addHelpText("after", wrapped(HELP))
    .action(async (engine: string, { schema }: { readonly schema: string }) => {
      if (engine !== "postgres") throw usage(`there is a script for: postgres; not for ${engine.slice(0, 40)}`);
      await io.stdout.write(setUpScript(schema));
    });
}
