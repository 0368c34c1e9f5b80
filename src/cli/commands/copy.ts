/** `keystile copy`: moves a database file to PostgreSQL. */
import { type Command, Option } from "commander";
import { assertDatabase } from "../database/database.js";
import { copyDatabase } from "../database/copy-database.js";
import { isPostgresAddress, openConnection, schemaOption, withoutCredentials } from "../database/postgres.js";
import { type CommandResult, EXIT, usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { notEmpty } from "../io/parsers.js";
import { count, note, pretty } from "../io/text.js";
import { startProgress } from "../import/progress.js";

const HELP = `
Stop every process that uses the file first: the copy is of the moment at which the command began, credits are as exact as that, and
leases end in it. Everything is copied: keys that were deleted, balances with their totals, idempotency keys, the audit trail. All of it
is then read back and compared, and committed if nothing differs. An interrupted copy leaves nothing: run the command again. A target
that holds rows is refused. Rate limits in memory, or in the file beside the database, are not copied: buckets start full.

The exit code is 1 if anything differs.

Example:
  $ keystile copy --from keys.db --to postgres://keystile@db/app      # the password from PGPASSWORD`;

export function addCopyCommand(program: Command, io: Io, result: CommandResult): void {
  program
    .command("copy")
    .description("Copy a database file to PostgreSQL, and compare the copy.")
    .requiredOption("--from <file>", "the database file, also as sqlite:FILE", notEmpty)
    .requiredOption("--to <address>", "postgres://user@host/database", notEmpty)
    .addOption(schemaOption())
    .addOption(new Option("--output <form>", "json: for programs").choices(["json"]))
    .addHelpText("after", wrapped(HELP))
    .action(async ({ from, to, schema, output }: CopyFlags) => {
      const file = from.replace(/^sqlite:/, "");
      assertDatabase(file);
      if (!isPostgresAddress(to)) throw usage("--to: takes postgres://user:password@host:5432/database");
      const shown = withoutCredentials(to);
      const connection = await openConnection(to);
      const bar = { now: undefined as ReturnType<typeof startProgress> | undefined, what: "" };
      try {
        const copied = await copyDatabase(file, connection, {
          schema,
          onProgress(what, done, all) {
            if (bar.what !== what) {
              bar.now?.stop();
              bar.now = startProgress(io, what, all);
              bar.what = what;
            }
            bar.now?.update(done);
          },
        });
        bar.now?.stop();
        const isSame = [...copied.values()].every((kind) => kind.isSame);
        await io.stdout.write(
          output === "json"
            ? `${pretty({ from: file, to: shown, schema, isSame, kinds: Object.fromEntries(copied) })}\n`
            : [...copied]
                .map(([kind, it]) => `${it.isSame ? "same  " : "DIFFERS"} ${kind}: ${count(it.rows)}\n`)
                .join(""),
        );
        if (isSame) return;
        result.exitCode = EXIT.no;
        await note(io, `the copy differs: does something still use ${file}? Stop it, and run the same command again`);
      } finally {
        bar.now?.stop();
        await connection.end();
      }
    });
}

interface CopyFlags {
  readonly from: string;
  readonly to: string;
  readonly schema: string;
  readonly output?: "json";
}
