/**
 * The first look: ten thousand real keys go into a SQLite file and are verified with every check there is.
 * `npm run quickstart` · again on the same file · `-- --fresh` for a new one · `-- --output json` for machines.
 */
import { parseArgs } from "node:util";
import { DATABASE } from "./quickstart/files.js";
import { runStory } from "./quickstart/story.js";
import { silentScreen, terminalScreen } from "./quickstart/terminal.js";

const USAGE = "usage: npm run quickstart -- [--fresh] [--output json|text]";

function readArguments(): { readonly fresh: boolean; readonly json: boolean } {
  const { values } = parseArgs({
    options: { fresh: { type: "boolean", default: false }, output: { type: "string", default: "text" } },
  });
  if (values.output !== "json" && values.output !== "text") throw new Error("--output must be json or text");
  return { fresh: values.fresh, json: values.output === "json" };
}

async function main(): Promise<number> {
  let options;
  try {
    options = readArguments();
  } catch (error) {
    console.error(`${(error as Error).message}\n${USAGE}`);
    return 2;
  }
  const screen = options.json ? silentScreen() : terminalScreen();
  const report = await runStory(screen, options.fresh);
  if (options.json) console.log(JSON.stringify(report, null, 2));
  const missed = report.checks.filter((check) => !check.ok);
  if (missed.length > 0) {
    console.error(`\nThis was expected and did not happen:\n${missed.map((check) => `  - ${check.what}\n`).join("")}`);
    return 1;
  }
  screen.title(
    "All as expected.",
    `${report.checks.length} checks · run it again: ${DATABASE} remembers · -- --fresh starts over`,
  );
  return 0;
}

process.exitCode = await main();
