/**
 * `keystile doctor`: checks a database file, or a PostgreSQL, and this machine, one line per check. Changes nothing.
 */
import type { Command } from "commander";
import { addDatabaseFlags, assertOneStore, type DatabaseFlags } from "../database/database.js";
import { examine } from "../database/doctor-checks.js";
import { examinePostgres } from "../database/doctor-postgres.js";
import type { Finding } from "../database/finding.js";
import { type CommandResult, EXIT } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { type Colour, count, hang, paint, pretty, stripControlChars } from "../io/text.js";

const HELP = `
Nothing is changed. Each check is ok, warn or fail; the exit code is 1 when one fails. The check of the file's integrity reads all
of it: seconds for a million keys. With --reconcile the credits of every key are checked: credited + refilled + adjusted is spent +
remaining + reserved + forfeited + expired, and its leases hold what is reserved. A key whose credits do not add up refuses to spend
until its balance is set. In a PostgreSQL the leases must have an account, too, and the idempotency records of each workspace be as many as
are counted; it is read in slices without a lock, so that nodes go on meanwhile.

Rate limits that are kept in a file beside the database (\`keystile serve --limiter file\`) are checked too, in a line of their own.

A -wal of another file beside the database is a fail, and a -wal that is missing although the -shm is there a warning. What no
check can find: a copy of the database file alone, made with cp while a process had it open. It lacks what was in the -wal, and
looks like a file that was closed. Copies are made with \`keystile backup\`.

Example:
  $ keystile doctor --db keys.db
  $ keystile doctor --db keys.db --reconcile --output json
  $ keystile doctor --store postgres://keystile@db.internal/app     # server, replica, pooler, durability, clock`;

const COLOURS: Readonly<Record<Finding["level"], Colour>> = { ok: "green", warn: "yellow", fail: "red" };

export function addDoctorCommand(program: Command, io: Io, result: CommandResult): void {
  addDatabaseFlags(program.command("doctor"))
    .description("Examine a database file, or a PostgreSQL, and this machine.")
    .option("--reconcile", "also check the credits of every key")
    .addHelpText("after", wrapped(HELP))
    .action(async (flags: DatabaseFlags & { readonly reconcile?: boolean }) => {
      assertOneStore(flags);
      const { db, store, schema, output, reconcile = false } = flags;
      const onProgress = (accounts: number) => {
        if (io.stderr.isTTY) void io.stderr.write(`\r${count(accounts)} accounts`);
      };
      const findings =
        db === undefined
          ? await examinePostgres(store as string, schema, { reconcile, onProgress })
          : await examine(db, io.now(), { reconcile, onProgress });
      if (reconcile && io.stderr.isTTY) await io.stderr.write("\n");
      const isFit = findings.every(({ level }) => level !== "fail");
      if (output === "json") await io.stdout.write(`${pretty({ ok: isFit, checks: findings })}\n`);
      else for (const finding of findings) await io.stdout.write(`${toLine(io, finding)}\n`);
      if (!isFit) result.exitCode = EXIT.no;
    });
}

function toLine(io: Io, { level, check, text }: Finding): string {
  return `${paint(io, io.stdout, COLOURS[level], level.padEnd(4))}  ${check.padEnd(10)}  ${hang(io, 18, stripControlChars(text))}`;
}
