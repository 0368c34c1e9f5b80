/** `keystile namespaces list`: the namespaces of rate limits in a store, with their ids. */
import type { Command } from "commander";
import { createRatelimits } from "../../keyring/ratelimits/create-ratelimits.js";
import type { NamespaceData } from "../../keyring/schemas/responses.js";
import { addDatabaseFlags, type DatabaseFlags, withStore } from "../database/database.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { addLimit, type Columns, type ListFlags, writeList } from "../io/table.js";

const HELP = `
The id is what a permission on one namespace names, such as ratelimit.<namespace_id>.limit.

Example:
  $ keystile namespaces list --db keys.db`;

const COLUMNS: Columns<NamespaceData> = { NAMESPACE: ({ id }) => id, NAME: ({ name }) => name };

export function addNamespacesCommand(program: Command, io: Io): void {
  const group = program.command("namespaces").description("Namespaces of rate limits in a store.");
  addLimit(addDatabaseFlags(group.command("list")))
    .description("List the namespaces: id and name.")
    .addHelpText("after", wrapped(HELP))
    .action((flags: DatabaseFlags & ListFlags) =>
      withStore(flags, (store) => writeList(io, flags, createRatelimits(store).listNamespaces, COLUMNS)),
    );
}
