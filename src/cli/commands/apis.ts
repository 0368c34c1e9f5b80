/** `keystile apis`, `keystile namespaces` and `keystile migrations`, on a store: what keys and limits refer to. */
import type { Command } from "commander";
import { createRatelimits } from "../../keyring/ratelimits/create-ratelimits.js";
import type { CreateMigrationRequestBody } from "../../keyring/schemas/migration-requests.js";
import type { CreateApiRequestBody } from "../../keyring/schemas/requests.js";
import type { NamespaceData, V2ApisGetApiResponseData } from "../../keyring/schemas/responses.js";
import { addDatabaseFlags, createDatabase, type DatabaseFlags, withKeyring, withStore } from "../database/database.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { addLimit, type Columns, type ListFlags, writeList } from "../io/table.js";
import { pretty } from "../io/text.js";

const APIS: Columns<V2ApisGetApiResponseData> = {
  API: ({ id }) => id,
  STATE: ({ enabled }) => (enabled ? "enabled" : "disabled"),
  NAME: ({ name }) => name,
};
const NAMESPACES: Columns<NamespaceData> = { NAMESPACE: ({ id }) => id, NAME: ({ name }) => name };

export function addApisCommand(program: Command, io: Io): void {
  const apis = program.command("apis").description("APIs in a store.");
  addLimit(addDatabaseFlags(apis.command("list")))
    .description("List the APIs: id, whether it is enabled, name.")
    .addHelpText("after", wrapped("\nExample:\n  $ keystile apis list --db keys.db"))
    .action((flags: DatabaseFlags & ListFlags) =>
      withKeyring(flags, (keyring) => writeList(io, flags, (page) => keyring.listApis(page), APIS)),
    );
  addDatabaseFlags(apis.command("create"))
    .argument("<name>", "for people, 3 to 256 characters")
    .option("--api-id <id>", "its id, 8 to 255 characters; default: a new one")
    .description("Make an API: a place for keys. A database file that does not exist is made.")
    .addHelpText("after", wrapped("\nExample:\n  $ keystile apis create --db keys.db --api-id api_documents documents"))
    .action(async (name: string, { apiId, ...flags }: DatabaseFlags & Pick<CreateApiRequestBody, "apiId">) => {
      const body = { name, ...(apiId !== undefined && { apiId }) };
      if (flags.db !== undefined && flags.store === undefined) await createDatabase(flags.db);
      const aliases = new Map([["name", "<name>"]]);
      const data = await withKeyring(flags, (keyring) => keyring.createApi(body), aliases);
      await io.stdout.write(flags.output === "json" ? `${pretty(data)}\n` : `${data.apiId}\n`);
    });
}

const NAMESPACES_HELP = `
The id is what a permission on one namespace names, such as ratelimit.<namespace_id>.limit.

Example:
  $ keystile namespaces list --db keys.db`;

export function addNamespacesCommand(program: Command, io: Io): void {
  const group = program.command("namespaces").description("Namespaces of rate limits in a store.");
  addLimit(addDatabaseFlags(group.command("list")))
    .description("List the namespaces: id and name.")
    .addHelpText("after", wrapped(NAMESPACES_HELP))
    .action((flags: DatabaseFlags & ListFlags) =>
      withStore(flags, (store) => writeList(io, flags, createRatelimits(store).listNamespaces, NAMESPACES)),
    );
}

const MIGRATIONS_HELP = `
The id that is printed is the --migration-id of \`keystile api keys migrate-keys\`.

Example:
  $ keystile migrations create --db keys.db --algorithm sha256`;

/** Declares how the keys of an import were hashed. */
export function addMigrationsCommand(program: Command, io: Io): void {
  const group = program.command("migrations").description("Migrations in a store: how imported keys were hashed.");
  addDatabaseFlags(group.command("create"))
    .description("Make a migration, which an import of hashed keys names.")
    .requiredOption("--algorithm <name>", "sha256, sha512 (of the whole key) or prefixed-api-key")
    .option("--id <id>", "its id, 3–255 characters; default: a new one")
    .addHelpText("after", wrapped(MIGRATIONS_HELP))
    .action(async ({ algorithm, id, ...flags }: DatabaseFlags & CreateMigrationRequestBody) => {
      const body = { algorithm, ...(id !== undefined && { id }) };
      const data = await withKeyring(flags, (keyring) => keyring.createMigration(body));
      await io.stdout.write(flags.output === "json" ? `${pretty(data)}\n` : `${data.migrationId}\n`);
    });
}
