/** `keystile demo`: a first look, in a folder of its own, without a network. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { type Screen, type State, tellStory } from "../demo/story.js";
import { type CommandResult, EXIT, usage } from "../io/failures.js";
import { wrapped } from "../io/help.js";
import type { Io } from "../io/io.js";
import { paint } from "../io/text.js";

const HELP = `
It imports, makes, verifies and revokes sample keys in a SQLite file, and checks every result; the exit code is 1 if one is not as it
must be. Run again on the same folder, it shows what persisted. Delete the folder when you are done.

Examples:
  $ keystile demo
  $ keystile demo ./keystile-demo`;

/** In the folder. */
const FILES = { database: "keys.db", state: "demo.json" };

export function addDemoCommand(program: Command, io: Io, result: CommandResult): void {
  program
    .command("demo")
    .argument("[folder]", "a new folder, or one of an earlier demo; default: a temporary one")
    .description("Show every outcome on 10,000 sample keys, in a folder of its own.")
    .addHelpText("after", wrapped(HELP))
    .action(async (given: string | undefined) => {
      const folder = given ?? mkdtempSync(join(tmpdir(), "keystile-demo-"));
      const state = join(folder, FILES.state);
      const before = openFolder(folder, state);
      const { screen, missed } = screenOf(io);
      const database = join(folder, FILES.database);
      const after = await tellStory(screen, database, before);
      writeFileSync(state, `${JSON.stringify(after)}\n`);
      await screen.step(missed.length === 0 ? "All as expected" : "This was not as expected");
      for (const text of missed) await screen.line(text);
      await screen.line(`made in ${folder}, which you may delete: ${Object.values(FILES).join(", ")}`);
      for (const next of [`keys list --db ${database}`, `console --db ${database}`, `demo ${folder}`])
        await screen.line(`npx keystile ${next}`);
      if (missed.length > 0) result.exitCode = EXIT.no;
    });
}

/** @throws failure 2: the folder has something else in it */
function openFolder(folder: string, state: string): State | undefined {
  mkdirSync(folder, { recursive: true });
  if (existsSync(state)) return JSON.parse(readFileSync(state, "utf8")) as State;
  if (readdirSync(folder).length === 0) return undefined;
  throw usage(`${folder}: is not empty, and no demo ended there; name another folder`);
}

function screenOf(io: Io): { readonly screen: Screen; readonly missed: readonly string[] } {
  const missed: string[] = [];
  let steps = 0;
  const line = (text: string): Promise<void> => io.stdout.write(`  ${text}\n`);
  const screen: Screen = {
    step: (title) => io.stdout.write(`\n${++steps}. ${title}\n`),
    line,
    check(isSo, text) {
      if (!isSo) missed.push(text);
      return line(paint(io, io.stdout, isSo ? "green" : "red", `${isSo ? "✓" : "✗"} ${text}`));
    },
  };
  return { screen, missed };
}
