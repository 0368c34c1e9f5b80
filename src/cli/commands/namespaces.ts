/** `keystile namespaces list`: the namespaces of rate limits in a database file, with their ids. */
import type { Command } from "commander";
import { createRatelimits } from "../../keyring/ratelimits/create-ratelimits.js";
import { addDatabaseFlags, type DatabaseFlags, readAll, withStore } from "../database/database.js";
import type { Io } from "../io/io.js";
import { note, oneLine, pretty } from "../io/text.js";
import { wrapped } from "../io/help.js";

const HELP = `
The id is what a permission on one namespace names, such as ratelimit.<namespace_id>.limit.

Example:
  $ keystile namespaces list --db keys.db`;

export function addNamespacesCommand(program: Command, io: Io): void {
  const group = program.command("namespaces").description("Namespaces of rate limits in a database file.");
  addDatabaseFlags(group.command("list"))
    .description("List the namespaces: id and name.")
    .addHelpText("after", wrapped(HELP))
    .action(async ({ db, output }: DatabaseFlags) => {
      const rows = await withStore(db, (store) => readAll(createRatelimits(store).listNamespaces));
      if (output === "json") return io.stdout.write(`${pretty(rows)}\n`);
      for (const { id, name } of rows) await io.stdout.write(`${oneLine(`${id}  ${name}`)}\n`);
      if (rows.length === 0) await note(io, "there are none");
    });
}
