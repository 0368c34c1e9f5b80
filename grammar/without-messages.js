/**
 * A plugin of the parser generator: drops error messages, lines and columns, the text found, and helpers of actions,
 * none of them used here (`src/access/query-error.ts` explains queries). That is two fifths of the parser. An error
 * keeps its offset and what was expected there; the declarations, which the generator writes by itself, still name what
 * is gone.
 */

/** Each must be found, so that another version of the generator does not quietly bring one back. */
const UNUSED = [
  /\n {2}format\(sources\) \{\n[\s\S]*?\n {2}\}\n/,
  /\n {2}static buildMessage\(expected, found\) \{\n[\s\S]*?\n {2}\}\n/,
  /\n {2}function peg\$buildSimpleError\([\s\S]*?\n {2}\}\n/,
  /\n {2}const peg\$source = [^\n]*/,
  /\n {2}const peg\$posDetailsCache = [^\n]*/,
  /\n {2}const peg\$startRuleFunctions = \{\n[\s\S]*?\n {2}\};/,
  /\n {2}let peg\$savedPos = [^\n]*/,
  /\n +peg\$savedPos = [^\n]*/g,
  ...[
    "text",
    "offset",
    "range",
    "location",
    "expected",
    "error",
    "peg\\$anyExpectation",
    "peg\\$classExpectation",
    "peg\\$getUnicode",
    "peg\\$computePosDetails",
  ].map((name) => new RegExp(`\\n {2}function ${name}\\([^)]*\\) \\{\\n[\\s\\S]*?\\n {2}\\}\\n`)),
  /\n {2}options = options [^\n]*/,
  /\n {2}if \(options\.startRule\) \{\n[\s\S]*?\n {2}\}\n/,
  /\n {2}if \(options\.peg\$library\) \{\n[\s\S]*?\n {2}\}\n/,
];
/** Expectations of letters and case-blind words: an error lists the names of their rules instead. */
const UNHEARD = /\n {2}const (peg\$e\d+) = peg\$(?:class|literal)Expectation\(.*(?:\], false, false, false|, true)\);/g;
/** Each gets a shorter text. */
const SHORTER = [
  [/options\.peg\$maxFailExpected \|\| \[\]/, "[]"],
  [/options\.peg\$\w+ \| 0/g, "0"],
  [/peg\$parse\(input, options\)/, "peg$parse(input)"],
  [
    /constructor\(message, expected, found, location\) \{\n {4}super\(message\);/,
    'constructor(expected, location) {\n    super("the query is malformed");',
  ],
  [/\n {4}this\.found = found;/, ""],
  [/\n {2}function peg\$computeLocation\([\s\S]*?\n {2}\}\n/, ""],
  [/\n {2}function peg\$buildStructuredError\([\s\S]*?\n {2}\}\n/, ""],
  [
    /throw peg\$buildStructuredError\([\s\S]*?\n {4}\);/,
    "throw new peg$SyntaxError(peg$maxFailExpected, { start: { offset: peg$maxFailPos } });",
  ],
];

export function use(config) {
  config.passes.generate.push((ast) => {
    let code = ast.code.toString();
    const unheard = [...code.matchAll(UNHEARD)].map(
      ([, name]) => new RegExp(`\\n +[^\\n]*\\b${name.replace("$", "\\$")}\\b[^\\n]*`, "g"),
    );
    for (const part of [...unheard, ...UNUSED]) {
      if (code.search(part) < 0) throw new Error(`the generated parser has no ${part.source}`);
      code = code.replace(part, "");
    }
    for (const [part, words] of SHORTER) {
      if (code.search(part) < 0) throw new Error(`the generated parser has no ${part.source}`);
      code = code.replace(part, () => words);
    }
    ast.code = code;
  });
}
