/** The help of every command, as the command line prints it. */
import { main } from "../../src/cli/main.js";

/** By the words of the command, `""` for the program itself. */
export type Help = ReadonlyMap<string, string>;

/** Every command there is, found by reading the help of the one above. */
export async function readHelp(): Promise<Help> {
  const help = new Map<string, string>();
  const read = async (words: readonly string[]): Promise<void> => {
    const text = await helpOf(words);
    help.set(words.join(" "), text);
    const [, list = ""] = /\nCommands:\n([\s\S]*?)(\n\n|$)/.exec(text) ?? [];
    for (const [, name = ""] of list.matchAll(/^ {2}([a-zA-Z-]+)/gm)) if (name !== "help") await read([...words, name]);
  };
  await read([]);
  return help;
}

async function helpOf(words: readonly string[]): Promise<string> {
  let text = "";
  const output = {
    write: async (part: string): Promise<void> => {
      text += part;
    },
    isClosed: () => false,
    isTTY: false,
  };
  const unused = (): never => {
    throw new Error("help needs nothing else");
  };
  await main([...words, "--help"], {
    ...{ stdout: output, stderr: output, reveal: unused, stdin: { [Symbol.asyncIterator]: unused } },
    ...{ env: {}, home: "", fetch: unused, now: unused, random: unused, sleep: unused, onStop: unused },
  });
  return text.trimEnd();
}

/** Where the page is, as a path of the repository that has no file. */
export const COMMANDS = "docs/commands.md";

/** Every command but those of operations, which have pages of their own. */
export function commandsPage(help: Help): string {
  const sections = [...help]
    .filter(([words]) => words === "" || words === "api" || !words.startsWith("api "))
    .map(([words, text]) => `## ${`keystile ${words}`.trim()}\n\n\`\`\`text\n${text}\n\`\`\`\n`);
  return `# Commands and flags

What \`--help\` of each command prints. [The command line](command-line.md) explains them; each command below \`keystile api\` stands on the page of [its operation](http-operations.md).

${sections.join("\n")}`;
}
