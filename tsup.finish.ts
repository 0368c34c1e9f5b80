/**
 * Writes the ES modules that pass on what is built as CommonJS, once that is there: declarations, which are the same
 * in both formats (85 kB of the package); the suites of tests, which share no class with a program (40 kB); and the
 * program of the threads.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const DIST = "dist";
const write = (name: string, text: string) => writeFileSync(join(DIST, name), text);

const entries = readdirSync(DIST).flatMap((name) => /^([a-z-]+)\.d\.cts$/.exec(name)?.[1] ?? []);
for (const entry of entries) {
  const text = readFileSync(join(DIST, `${entry}.d.cts`), "utf8");
  // A package's own types may differ in the two formats: an ES module names those of its kind.
  const namesPackages = /from ['"][^.]/.test(text);
  write(`${entry}.d.ts`, namesPackages ? text : `export * from "./${entry}.cjs";\n`);
}
const suites = createRequire(import.meta.url)(`./${DIST}/testing.cjs`) as object;
write("testing.js", `export { ${Object.keys(suites).join(", ")} } from "./testing.cjs";\n`);
write("sqlite-writer.js", 'import "./sqlite-writer.cjs";\n');
