/** `keystile doctor`: checks a database file and this machine, one line per check. Changes nothing. */
import type { Command } from "commander";
import { addDatabaseFlags, type DatabaseFlags } from "../database/database.js";
import { examine, type Finding } from "../database/doctor-checks.js";
import { type CommandResult, EXIT } from "../io/failures.js";
import type { Io } from "../io/io.js";
import { type Colour, paint, pretty, stripControlChars } from "../io/text.js";

const HELP = `
Nothing is changed. Each check is ok, warn or fail; the exit code is 1 when one fails. The check of the file's integrity reads all
of it: seconds for a million keys.

Example:
  $ keystile doctor --db keys.db`;

const COLOURS: Readonly<Record<Finding["level"], Colour>> = { ok: "green", warn: "yellow", fail: "red" };

export function addDoctorCommand(program: Command, io: Io, result: CommandResult): void {
  addDatabaseFlags(program.command("doctor"))
    .description("Examine a database file and this machine.")
    .addHelpText("after", HELP)
    .action(async ({ db, output }: DatabaseFlags) => {
      const findings = await examine(db, io.now());
      const isFit = findings.every(({ level }) => level !== "fail");
      if (output === "json") await io.stdout.write(`${pretty({ ok: isFit, checks: findings })}\n`);
      else for (const finding of findings) await io.stdout.write(`${toLine(io, finding)}\n`);
      if (!isFit) result.exitCode = EXIT.no;
    });
}

function toLine(io: Io, { level, check, text }: Finding): string {
  return `${paint(io, io.stdout, COLOURS[level], level.padEnd(4))}  ${check.padEnd(10)}  ${stripControlChars(text)}`;
}
