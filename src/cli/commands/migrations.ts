/** `keystile migrations create`: declares how the keys of an import were hashed. */
import type { Command } from "commander";
import { addDatabaseFlags, type DatabaseFlags, withKeyring } from "../database/database.js";
import type { Io } from "../io/io.js";
import { pretty } from "../io/text.js";
import { wrapped } from "../io/help.js";

const EXAMPLE = `
The id that is printed is the --migration-id of \`keystile api keys migrate-keys\`.

Example:
  $ keystile migrations create --db keys.db --algorithm sha256`;

export function addMigrationsCommand(program: Command, io: Io): void {
  const group = program.command("migrations").description("Migrations in a store: how imported keys were hashed.");
  addDatabaseFlags(group.command("create"))
    .description("Make a migration, which an import of hashed keys names.")
    .requiredOption("--algorithm <name>", "sha256, sha512 (of the whole key) or prefixed-api-key")
    .option("--id <id>", "its id, 3–255 characters; default: a new one")
    .addHelpText("after", wrapped(EXAMPLE))
    .action(
      async ({ algorithm, id, ...flags }: DatabaseFlags & { readonly algorithm: string; readonly id?: string }) => {
        const body = { algorithm, ...(id !== undefined && { id }) };
        const data = await withKeyring(flags, (keyring) => keyring.createMigration(body));
        await io.stdout.write(flags.output === "json" ? `${pretty(data)}\n` : `${data.migrationId}\n`);
      },
    );
}
