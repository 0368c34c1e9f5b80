/** Text below a command's options, wrapped like the options themselves. */
import type { AddHelpTextContext, Command } from "commander";

/** Columns where the output is no terminal, as commander has it for options. */
export const DEFAULT_WIDTH = 80;
/** A term and what it means, which may go on in further lines, each below the first. */
const ITEM = /^( {2}(?!\$)(?:\S+ )*\S+ {2,})(\S.*)$/;

/**
 * For `addHelpText`: paragraphs and lists, wrapped to the width of the terminal. An indented line that is no item of a
 * list, such as an example, stays as it is.
 */
export function wrapped(text: string | (() => string)): (context: AddHelpTextContext) => string {
  return ({ command }) => {
    const paragraphs = (typeof text === "string" ? text : text()).split("\n\n");
    return paragraphs.map((paragraph) => wrapParagraph(command, paragraph)).join("\n\n");
  };
}

function wrapParagraph(command: Command, paragraph: string): string {
  const helper = command.createHelp();
  const width = command.configureOutput().getOutHelpWidth?.() ?? DEFAULT_WIDTH;
  // Lines of plain text are one text; each indented line stands alone.
  const lines = paragraph.replace(/(\S)\n(?=[^ \n])/g, "$1 ").split("\n");
  return lines
    .map((line) => {
      const [, term = "", meaning = line] = ITEM.exec(line) ?? [];
      if (line.startsWith(" ") && term === "") return line;
      return term + helper.boxWrap(meaning, width - term.length).replaceAll("\n", `\n${" ".repeat(term.length)}`);
    })
    .join("\n");
}
