/** `keystile apis list|create`, on a store: which API is which. */
import type { Command } from "commander";
import type { V2ApisGetApiResponseData } from "../../keyring/schemas/responses.js";
import { addDatabaseFlags, createDatabase, type DatabaseFlags, withKeyringFor } from "../database/database.js";
import type { FlagAliases } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { addLimit, type Columns, type ListFlags, writeList } from "../io/table.js";
import { pretty } from "../io/text.js";

const FLAG_ALIASES: FlagAliases = new Map([
  ["name", "<name>"],
  ["apiId", "--api-id"],
]);

const COLUMNS: Columns<V2ApisGetApiResponseData> = {
  API: ({ id }) => id,
  STATE: ({ enabled }) => (enabled ? "enabled" : "disabled"),
  NAME: ({ name }) => name,
};

export function addApisCommand(program: Command, io: Io): void {
  const apis = program.command("apis").description("APIs in a store.");
  addLimit(addDatabaseFlags(apis.command("list")))
    .description("List the APIs: id, whether it is enabled, name.")
    .addHelpText("after", wrapped("\nExample:\n  $ keystile apis list --db keys.db"))
    .action((flags: DatabaseFlags & ListFlags) =>
      withKeyringFor(flags, FLAG_ALIASES, (keyring) => writeList(io, flags, (page) => keyring.listApis(page), COLUMNS)),
    );
  addDatabaseFlags(apis.command("create"))
    .argument("<name>", "for people, 3 to 256 characters")
    .option("--api-id <id>", "its id, 8 to 255 characters; default: a new one")
    .description("Make an API: a place for keys. A database file that does not exist is made.")
    .addHelpText("after", wrapped("\nExample:\n  $ keystile apis create --db keys.db --api-id api_documents documents"))
    .action(async (name: string, { apiId, ...flags }: DatabaseFlags & { readonly apiId?: string }) => {
      const body = { name, ...(apiId !== undefined && { apiId }) };
      if (flags.db !== undefined && flags.store === undefined) await createDatabase(flags.db);
      const data = await withKeyringFor(flags, FLAG_ALIASES, (keyring) => keyring.createApi(body));
      await io.stdout.write(flags.output === "json" ? `${pretty(data)}\n` : `${data.apiId}\n`);
    });
}
