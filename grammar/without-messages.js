/**
 * A plugin of the parser generator: leaves out how it words an error, and helpers of actions, which nothing here uses (`src/query-problem.ts` explains queries).
 * That is a third of the parser. What stays of an error is where it is and what was expected there; the declarations, which the
 * generator writes by itself, still name the two methods that are gone.
 */

/** Each must be found, so that another version of the generator does not quietly bring one back. */
const UNUSED = [
  /\n {2}format\(sources\) \{\n[\s\S]*?\n {2}\}\n/,
  /\n {2}static buildMessage\(expected, found\) \{\n[\s\S]*?\n {2}\}\n/,
  /\n {2}function peg\$buildSimpleError\([\s\S]*?\n {2}\}\n/,
  ...["text", "offset", "range", "location", "expected", "error", "peg\\$anyExpectation"].map(
    (name) => new RegExp(`\\n {2}function ${name}\\([^)]*\\) \\{\\n[\\s\\S]*?\\n {2}\\}\\n`),
  ),
  /\n {2}if \(options\.startRule\) \{\n[\s\S]*?\n {2}\}\n/,
  /\n {2}if \(options\.peg\$library\) \{\n[\s\S]*?\n {2}\}\n/,
];
const MESSAGE = "peg$SyntaxError.buildMessage(expected, found)";

export function use(config) {
  config.passes.generate.push((ast) => {
    let code = ast.code.toString();
    for (const part of UNUSED) {
      if (!part.test(code)) throw new Error(`the generated parser has no ${part.source}`);
      code = code.replace(part, "");
    }
    if (!code.includes(MESSAGE)) throw new Error(`the generated parser has no ${MESSAGE}`);
    ast.code = code.replace(MESSAGE, () => '"the query is malformed"');
  });
}
