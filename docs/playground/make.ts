/** The playground: `page.html` with the engine in it, one file that opens without a network or a server. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const FOLDER = import.meta.dirname;
/** Where the page has the engine's place. */
const PLACE = "/* the engine */";
/** What the page uses, in the global `keystile`. */
const ENGINE = `
export { createKeyring } from "./src/keyring/keyring.js";
export { memoryStore } from "./src/stores/memory.js";
export { explain } from "./src/verify/explain.js";
export { createVerifier } from "./src/verify/verifier.js";
`;

/** @returns HTML */
export async function makePlayground(): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents: ENGINE, resolveDir: join(FOLDER, "..", ".."), loader: "ts" },
    bundle: true,
    minify: true,
    write: false,
    platform: "browser",
    format: "iife",
    globalName: "keystile",
  });
  const engine = outputFiles
    .map(({ text }) => text)
    .join("")
    .replaceAll("</script", "<\\/script");
  const page = readFileSync(join(FOLDER, "page.html"), "utf8");
  if (!page.includes(PLACE)) throw new Error(`page.html has no ${PLACE}`);
  // As a function: the engine has `$` in it.
  return page.replace(PLACE, () => engine);
}
