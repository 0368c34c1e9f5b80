import { Command } from "commander";
import { describe, expect, it } from "vitest";
import { wrapped } from "../../../src/cli/io/help.js";

/** What is below the options of a command, in a terminal of so many columns. */
function textBelow(text: string | (() => string), width: number | undefined): string {
  let said = "";
  const command = new Command("tool")
    .configureOutput({ writeOut: (part) => void (said += part), getOutHelpWidth: () => width as number })
    .helpOption(false)
    .addHelpText("after", wrapped(text));
  command.outputHelp();
  return said.slice(said.indexOf("\n") + 1);
}

describe("wrapped help", () => {
  const LIST = "Codes:\n  0   all was done\n  10  the answer is no, and nothing else is to be said about that";

  it("joins the lines of a paragraph and wraps it", () => {
    expect(textBelow("one two three four five\nsix seven eight nine ten\n\neleven", 40)).toBe(
      "one two three four five six seven eight\nnine ten\n\neleven\n",
    );
  });

  it("wraps what an item of a list means below its first word", () => {
    expect(textBelow(LIST, 60)).toBe(
      "Codes:\n  0   all was done\n  10  the answer is no, and nothing else is to be said about\n      that\n",
    );
  });

  it("leaves examples as they are, with a remark after two spaces or more", () => {
    const example = `Example:\n  $ tool ${"x ".repeat(60)}   # this is one of many`;
    expect(textBelow(example, 50)).toBe(`${example}\n`);
  });

  it("takes 80 columns where there is no terminal, and a text that is made when it is shown", () => {
    expect(textBelow(() => "word ".repeat(30).trim(), undefined)).toBe(
      `${"word ".repeat(16).trim()}\n${"word ".repeat(14).trim()}\n`,
    );
  });
});
