import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isKeystileError } from "../../../../src/contracts/errors.js";
import { loadDriver, openFile } from "../../../../src/stores/sqlite/connection/driver.js";
import { temporaryPaths } from "../support.js";

const path = temporaryPaths();

/** A `require` of a folder in which this package.json and this code are installed as better-sqlite3. */
function installed(
  manifest: string | undefined,
  code = "module.exports = class { }",
  extra: object = {},
): NodeJS.Require {
  const root = path();
  const folder = join(root, "node_modules", "better-sqlite3");
  mkdirSync(join(folder, "lib"), { recursive: true });
  if (manifest !== undefined) writeFileSync(join(folder, "package.json"), manifest);
  writeFileSync(join(folder, "lib", "index.js"), code);
  // Resolution without a manifest needs a main file in the folder itself.
  writeFileSync(join(folder, "index.js"), code);
  Object.assign(extra, { folder });
  return createRequire(join(root, "program.js"));
}
const manifest = (version: string, more: object = { main: "lib/index.js" }) =>
  JSON.stringify({ name: "better-sqlite3", version, ...more });
const failure = (run: () => unknown) => {
  try {
    run();
  } catch (error) {
    if (isKeystileError(error)) return error;
    throw error;
  }
  throw new Error("it did not fail");
};
/** Code that must never run: loading such a version would end the process. */
const CRASHES = 'throw new Error("it was loaded")';

describe("loadDriver", () => {
  it("finds the installed driver", () => {
    expect(loadDriver()).toBeTypeOf("function");
    expect(loadDriver(installed(manifest("12.0.0")), { node: "20.0.0" })).toBeTypeOf("function");
    expect(loadDriver(installed(manifest("13.9.1")), { node: "22.12.0" })).toBeTypeOf("function");
    expect(loadDriver(installed(manifest("12.99.0")), { node: "26.0.0" })).toBeTypeOf("function");
  });

  it("finds the version of a package that does not export its package.json, as version 13 does", () => {
    const require = installed(manifest("13.0.0", { exports: { ".": "./lib/index.js" } }));
    expect(() => require.resolve("better-sqlite3/package.json")).toThrow();
    expect(loadDriver(require, { node: "22.0.0" })).toBeTypeOf("function");
  });

  it("none installed: DRIVER_MISSING says what to run", () => {
    const error = failure(() => loadDriver(createRequire(join(path(), "nowhere.js"))));
    expect(error.code).toBe("DRIVER_MISSING");
    expect(error.message).toContain("npm install better-sqlite3@");
  });

  it.each([
    ["11.10.0", "22.0.0", /versions 12 and 13 are/, 13],
    ["14.0.0", "26.0.0", /versions 12 and 13 are/, 13],
    ["1.12.0", "20.0.0", /versions 12 and 13 are/, 12],
    ["13.0.0", "20.20.2", /needs Node 22 or later, this is 20.20.2/, 12],
    ["nonsense", "22.0.0", /versions 12 and 13 are/, 13],
  ])("version %s on Node %s is refused before it is loaded", (version, node, message, remedy) => {
    const error = failure(() => loadDriver(installed(manifest(version), CRASHES), { node }));
    expect(error.code).toBe("DRIVER_UNSUPPORTED");
    expect(error.message).toMatch(message);
    expect(error.message).toContain(`npm install better-sqlite3@${remedy}`);
  });

  it("version 12 that was compiled for Node 24.19 or later is refused before it is loaded: it would end the process", () => {
    const where = { folder: "" };
    const require = installed(manifest("12.11.1"), CRASHES, where);
    mkdirSync(join(where.folder, "build", "Release"), { recursive: true });
    const native = join(where.folder, "build", "Release", "better_sqlite3.node");
    writeFileSync(native, "\0_ZN4node28RemoveEnvironmentCleanupHookEPN2v87IsolateE\0");
    const error = failure(() => loadDriver(require, { node: "24.21.0" }));
    expect(error.code).toBe("DRIVER_UNSUPPORTED");
    expect(error.message).toMatch(/would end the process; run: npm install better-sqlite3@13$/);
    // One that was compiled before is as good as ever.
    writeFileSync(native, "\0_ZN4node25AddEnvironmentCleanupHookEPN2v87IsolateE\0");
    expect(failure(() => loadDriver(require, { node: "24.21.0" })).cause).toMatchObject({ message: "it was loaded" });
  });

  it("a package whose version is unknown is refused before it is loaded", () => {
    for (const broken of [undefined, '{"name":"other","version":"12.0.0"}']) {
      const error = failure(() => loadDriver(installed(broken, CRASHES), { node: "22.0.0" }));
      expect(error.code, String(broken)).toBe("DRIVER_UNSUPPORTED");
    }
  });

  it("a driver that does not load is DRIVER_UNSUPPORTED with its cause", () => {
    const error = failure(() => loadDriver(installed(manifest("12.1.0"), CRASHES), { node: "22.0.0" }));
    expect(error.code).toBe("DRIVER_UNSUPPORTED");
    expect(error.message).toContain("npm rebuild better-sqlite3");
    expect((error.cause as Error).message).toBe("it was loaded");
  });

  it.each([
    [
      'Object.assign(new Error("was compiled against a different Node.js version"), { code: "ERR_DLOPEN_FAILED" })',
      "DRIVER_UNSUPPORTED",
    ],
    ['new Error("Could not locate the bindings file. Tried: …")', "DRIVER_UNSUPPORTED"],
    ['Object.assign(new Error("loading addons is disabled"), { code: "ERR_DLOPEN_DISABLED" })', "DRIVER_UNSUPPORTED"],
    ['new TypeError("Cannot open database because the directory does not exist")', "STORE_FAILED"],
  ])("the native part is loaded by the first open: %s", (thrown, code) => {
    const Driver = loadDriver(
      installed(manifest("12.1.0"), `module.exports = class { constructor() { throw ${thrown} } }`),
      { node: "22.0.0" },
    );
    expect(failure(() => openFile(Driver, "x.db", { readonly: false, fileMustExist: false, timeout: 0 })).code).toBe(
      code,
    );
  });

  it.each([
    ["ERR_DLOPEN_DISABLED", /may load no native code; run it with --allow-addons, and without --no-addons$/],
    [
      "ERR_DLOPEN_FAILED",
      /npm rebuild better-sqlite3, or .* install script may have been skipped: pnpm, yarn and npm 11/,
    ],
  ])("%s: says what to do about it", (code, message) => {
    const thrown = `module.exports = class { constructor() { throw Object.assign(new Error("x"), { code: "${code}" }) } }`;
    const Driver = loadDriver(installed(manifest("12.1.0"), thrown), { node: "22.0.0" });
    expect(
      failure(() => openFile(Driver, "x.db", { readonly: false, fileMustExist: false, timeout: 0 })).message,
    ).toMatch(message);
  });

  it.each([
    ["bun", "Bun", "bun:sqlite"],
    ["deno", "Deno", "node:sqlite"],
  ])("in %s: says which handle to pass, and to install nothing", (runtime, name, builtIn) => {
    for (const require of [installed(manifest("12.1.0"), CRASHES), createRequire(join(path(), "nowhere.js"))]) {
      const error = failure(() => loadDriver(require, { node: "22.0.0", [runtime]: "1.3.0" }));
      expect(error.code).toBe("DRIVER_UNSUPPORTED");
      expect(error.message).toContain(`in ${name} better-sqlite3 cannot be loaded here`);
      expect(error.message).toContain(`opened with ${builtIn}`);
      expect(error.message).not.toContain("npm");
    }
  });

  it("any other fault of opening rises as it is", () => {
    const Driver = loadDriver(
      installed(manifest("12.1.0"), "module.exports = class { constructor() { throw new Error('disk') } }"),
      { node: "22.0.0" },
    );
    expect(() => openFile(Driver, "x.db", { readonly: false, fileMustExist: false, timeout: 0 })).toThrow("disk");
  });
});
