/** `keystile backup` and `keystile restore`: a copy of a database in use, and the way back. */
import { statSync } from "node:fs";
import { type Command, Option } from "commander";
import { makeBackup } from "../../stores/sqlite/backup/make-backup.js";
import { temporaryName } from "../../stores/sqlite/backup/files.js";
import { restoreBackup } from "../../stores/sqlite/backup/restore.js";
import { assertDatabase, assertNoFolder, filesOf, outputOption } from "../database/database.js";
import { type CommandResult, EXIT, usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { toPath } from "../io/parsers.js";
import { isSameFile } from "../io/same-file.js";
import { count, note, pretty } from "../io/text.js";

const BACKUP_HELP = `
Servers go on meanwhile. The copy has everything that was acknowledged before the command began, and is one file with mode 0600 that
needs no other beside it. Leases are void in it: what they held counts as forfeited there. What is acknowledged after a backup is
lost when that backup is restored. The exit code is 1 if a file of that name is there, or if credits in the database do not add up:
the backup is made, and \`keystile restore\` refuses it until they do.

cp is no backup: deductions that were acknowledged are in the -wal, and a copy of the database file alone opens without them.

A command that is interrupted leaves files that end in .part and .part-journal, which may be deleted.

Example:
  $ keystile backup --db keys.db --to keys-2027-01-31.db`;

const RESTORE_HELP = `
Stop every process that uses the database first. The copy is checked before it gets its name: its pages, its version, the credits of
every key. With --force the database that is there, with its -wal and -shm, gets a name that ends in .before-restore-<time>; nothing
is deleted. The exit code is 1 if something is there and --force is not given, 3 if the backup cannot be used.

The database is then as it was at the time of the backup: deductions since are given back, keys made since do not exist, keys revoked
since work again.

A command that is interrupted leaves what was there or the whole backup in its place, and maybe files that end in .part and
.part-journal, which may be deleted.

Example:
  $ keystile restore --from keys-2027-01-31.db --db keys.db`;

/** Milliseconds for which a backup waits for locks. */
const BUSY_TIMEOUT = 10_000;

interface FileFlags {
  readonly db: string;
  readonly output?: "json";
}

const addFileFlags = (command: Command): Command =>
  command.requiredOption("--db <file>", "the database file", toPath).addOption(outputOption());

export function addBackupCommands(program: Command, io: Io, result: CommandResult): void {
  addFileFlags(program.command("backup"))
    .description("Copy a database file while it is in use.")
    .requiredOption("--to <file>", "the copy, which must not exist", toPath)
    .addHelpText("after", wrapped(BACKUP_HELP))
    .action(async ({ db, output, to }: FileFlags & { readonly to: string }) => {
      assertDatabase(db);
      assertOtherPlace(to, db);
      const progress = startLine(io);
      progress.show(`copying ${count(statSync(db).size)} bytes`);
      // In this thread: the command has nothing else to do.
      const order = { path: db, target: to, temporary: temporaryName(to), readonly: false, busyTimeout: BUSY_TIMEOUT };
      const made = progress.during(() =>
        makeBackup(order, (accounts) => progress.show(`checked ${count(accounts)} accounts`)),
      );
      const { bytes, accounts, broken, leases, forfeited } = made;
      await io.stdout.write(
        output === "json"
          ? `${pretty({ database: db, backup: to, ...made })}\n`
          : `${to}: ${count(bytes)} bytes, ${count(accounts)} accounts${describeLeases(leases, forfeited)}\n`,
      );
      if (broken === 0) return;
      result.exitCode = EXIT.no;
      await note(io, `${count(broken)} accounts do not add up; run: npx keystile doctor --reconcile --db ${db}`);
    });

  addFileFlags(program.command("restore"))
    .description("Put a backup in the place of a database file.")
    .requiredOption("--from <file>", "a file that `keystile backup` made", toPath)
    .addOption(new Option("--force", "move the database that is there aside").default(false))
    .addHelpText("after", wrapped(RESTORE_HELP))
    .action(async ({ db, output, from, force }: FileFlags & { readonly from: string; readonly force: boolean }) => {
      assertNoFolder(db);
      assertBackup(from, db);
      const progress = startLine(io);
      const restored = progress.during(() =>
        restoreBackup(from, db, {
          force,
          now: io.now(),
          onProgress: (what, done) =>
            progress.show(what === "copying" ? `copied ${count(done)} bytes` : `checked ${count(done)} accounts`),
        }),
      );
      const { bytes, accounts, leases, forfeited, movedAside } = restored;
      await io.stdout.write(
        output === "json"
          ? `${pretty({ database: db, backup: from, ...restored })}\n`
          : `${db}: ${count(bytes)} bytes, ${count(accounts)} accounts${describeLeases(leases, forfeited)}\n` +
              movedAside.map((file) => `moved aside: ${file}\n`).join(""),
      );
    });
}

/** A name that SQLite or the limiter would take for the database's own, though no file may be there now. */
function assertOtherPlace(to: string, db: string): void {
  const [, ...beside] = filesOf(db);
  if (beside.some((file) => isSameFile(file, to))) throw usage(`--to: ${to}: is a file of the database`);
}

function assertBackup(from: string, db: string): void {
  const stat = statSync(from, { throwIfNoEntry: false });
  if (stat?.isFile() !== true) throw usage(`--from: ${from}: there is no such file`);
  if (isSameFile(from, db)) throw usage("--from and --db are the same file");
}

function describeLeases(leases: number, forfeited: number): string {
  return leases === 0 ? "" : `; ${count(leases)} leases are void in it, which held ${count(forfeited)} credits`;
}

/** One line on stderr that is written over. */
function startLine(io: Io) {
  let isUsed = false;
  return {
    /** Shows what is being done, if stderr is a terminal. */
    show(text: string): void {
      if (!io.stderr.isTTY) return;
      isUsed = true;
      void io.stderr.write(`\r${text.padEnd(WIDTH)}`);
    },
    /** Runs the work, and ends the line whatever becomes of it. */
    during<T>(work: () => T): T {
      try {
        return work();
      } finally {
        if (isUsed) void io.stderr.write("\n");
      }
    },
  };
}

/** Columns that a line writes over. */
const WIDTH = 40;
