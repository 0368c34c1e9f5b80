import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { runInNewContext } from "node:vm";
import { build, type Format } from "esbuild";
import { describe, expect, it } from "vitest";
import { modulePath } from "../../../../src/stores/sqlite/connection/module-path.js";

const SOURCE = fileURLToPath(new URL("../../../../src/stores/sqlite/connection/module-path.ts", import.meta.url));

/** What `here` answers in a bundle of CommonJS that finds this `__filename`. */
async function hereIn(format: Format, names: object): Promise<unknown> {
  const { outputFiles } = await build({
    entryPoints: [SOURCE],
    bundle: true,
    write: false,
    platform: "node",
    format,
    logLevel: "error",
  });
  const module = { exports: {} as { modulePath: () => string } };
  runInNewContext(outputFiles[0]!.text, { module, require: createRequire(import.meta.url), process, ...names });
  return module.exports.modulePath();
}

describe("here", () => {
  it("is this module's address, in CommonJS its path, and without one the working directory", async () => {
    expect(modulePath()).toMatch(/^file:.*\/module-path\.ts$/);
    expect(await hereIn("cjs", { __filename: "/srv/app/bundle.cjs" })).toBe("/srv/app/bundle.cjs");
    for (const names of [{}, { __filename: "[eval]" }]) {
      const place = await hereIn("cjs", names);
      expect(place).toBe(`${process.cwd()}/`);
      expect(createRequire(place as string).resolve("better-sqlite3")).toContain("better-sqlite3");
    }
  });
});
