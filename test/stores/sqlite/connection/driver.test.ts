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
  code = "module.exports = class { close() {} }",
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

/** Chooses the driver where there is no node:sqlite. */
const load = (require: NodeJS.Require, runtime: { node: string; bun?: string; deno?: string } = { node: "20.20.2" }) =>
  loadDriver({ require, runtime, builtIn: () => undefined });
const nowhere = () => createRequire(join(path(), "nowhere.js"));

describe("loadDriver", () => {
  it("finds the installed driver", () => {
    for (const driver of [
      loadDriver(),
      load(installed(manifest("12.0.0")), { node: "20.0.0" }),
      load(installed(manifest("13.9.1")), { node: "22.14.0" }),
      load(installed(manifest("12.99.0")), { node: "26.0.0" }),
    ])
      expect(driver.name).toBe("better-sqlite3");
  });

  it("finds the version of a package that does not export its package.json, as version 13 does", () => {
    const require = installed(manifest("13.0.0", { exports: { ".": "./lib/index.js" } }));
    expect(() => require.resolve("better-sqlite3/package.json")).toThrow();
    expect(load(require, { node: "22.14.0" }).name).toBe("better-sqlite3");
  });

  it("none installed: DRIVER_MISSING says what to run", () => {
    const error = failure(() => load(nowhere()));
    expect(error.code).toBe("DRIVER_MISSING");
    expect(error.message).toContain("npm install better-sqlite3@");
  });

  it.each([
    ["11.10.0", "22.14.0", /versions 12 and 13 are/, 13],
    ["14.0.0", "26.0.0", /versions 12 and 13 are/, 13],
    ["1.12.0", "20.0.0", /versions 12 and 13 are/, 12],
    ["13.0.0", "20.20.2", /needs Node 22.14 or later, this is 20.20.2/, 12],
    ["13.2.0", "22.13.1", /needs Node 22.14 or later, this is 22.13.1/, 12],
    ["nonsense", "22.14.0", /versions 12 and 13 are/, 13],
  ])("version %s on Node %s is refused before it is loaded", (version, node, message, remedy) => {
    const error = failure(() => load(installed(manifest(version), CRASHES), { node }));
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
    const error = failure(() => load(require, { node: "24.21.0" }));
    expect(error.code).toBe("DRIVER_UNSUPPORTED");
    expect(error.message).toMatch(/would end the process; run: npm install better-sqlite3@13$/);
    // One that was compiled before is as good as ever.
    writeFileSync(native, "\0_ZN4node25AddEnvironmentCleanupHookEPN2v87IsolateE\0");
    expect(failure(() => load(require, { node: "24.21.0" })).cause).toMatchObject({ message: "it was loaded" });
  });

  it("a package whose version is unknown is refused before it is loaded", () => {
    for (const broken of [undefined, '{"name":"other","version":"12.0.0"}']) {
      const error = failure(() => load(installed(broken, CRASHES), { node: "22.14.0" }));
      expect(error.code, String(broken)).toBe("DRIVER_UNSUPPORTED");
    }
  });

  it("a driver that does not load is DRIVER_UNSUPPORTED with its cause", () => {
    const error = failure(() => load(installed(manifest("12.1.0"), CRASHES), { node: "22.14.0" }));
    expect(error.code).toBe("DRIVER_UNSUPPORTED");
    expect(error.message).toContain("npm rebuild better-sqlite3");
    expect((error.cause as Error).message).toBe("it was loaded");
  });

  it.each([
    'Object.assign(new Error("was compiled against a different Node.js version"), { code: "ERR_DLOPEN_FAILED" })',
    'new Error("Could not locate the bindings file. Tried: …")',
    'Object.assign(new Error("loading addons is disabled"), { code: "ERR_DLOPEN_DISABLED" })',
  ])("the native part, which the first open loads, is tried: %s", (thrown) => {
    const code = `module.exports = class { constructor() { throw ${thrown} } }`;
    const error = failure(() => load(installed(manifest("12.1.0"), code), { node: "22.14.0" }));
    expect(error.code).toBe("DRIVER_UNSUPPORTED");
  });

  it.each([
    ["ERR_DLOPEN_DISABLED", /may load no native code; run it with --allow-addons, and without --no-addons$/],
    [
      "ERR_DLOPEN_FAILED",
      /npm rebuild better-sqlite3, or .* install script may have been skipped: pnpm, yarn and npm 11/,
    ],
  ])("%s: says what to do about it", (code, message) => {
    const thrown = `module.exports = class { constructor() { throw Object.assign(new Error("x"), { code: "${code}" }) } }`;
    expect(failure(() => load(installed(manifest("12.1.0"), thrown), { node: "22.14.0" })).message).toMatch(message);
  });

  it.each([
    ["bun", "Bun", "bun:sqlite"],
    ["deno", "Deno", "node:sqlite"],
  ])("in %s: says which handle to pass, and to install nothing", (runtime, name, builtIn) => {
    for (const require of [installed(manifest("12.1.0"), CRASHES), nowhere()]) {
      const error = failure(() => load(require, { node: "22.14.0", [runtime]: "1.3.0" }));
      expect(error.code).toBe("DRIVER_UNSUPPORTED");
      expect(error.message).toContain(`in ${name} better-sqlite3 cannot be loaded here`);
      expect(error.message).toContain(`opened with ${builtIn}`);
      expect(error.message).not.toContain("npm");
    }
  });
});

describe("loadDriver: where node:sqlite is there", () => {
  const opened: unknown[] = [];
  const sqlite = {
    DatabaseSync: class {
      constructor(...given: unknown[]) {
        opened.push(given);
      }
      exec = (sql: string) => void opened.push(sql);
      close = () => undefined;
      prepare(): never {
        throw new Error("nothing is prepared here");
      }
    },
  };
  const runtime = { node: "22.14.0" };
  const asked: string[] = [];
  const builtIn = () => {
    asked.push("node:sqlite");
    return sqlite;
  };

  it("better-sqlite3 goes first, and node:sqlite is not even loaded", () => {
    expect(loadDriver({ require: installed(manifest("13.0.0")), runtime, builtIn }).name).toBe("better-sqlite3");
    expect(asked).toEqual([]);
  });

  it.each([
    ["none installed", () => nowhere(), /is not installed/],
    ["one that is not supported", () => installed(manifest("11.0.0"), CRASHES), /versions 12 and 13 are/],
    ["one that does not load", () => installed(manifest("12.1.0"), CRASHES), /does not load in this Node/],
  ])("%s: it takes its place, and the driver says why", (_, place, reason) => {
    const driver = loadDriver({ require: place(), runtime, builtIn });
    expect([driver.name, driver.reason]).toEqual(["node:sqlite", expect.stringMatching(reason)]);
  });

  it("a package that cannot be read is no reason to choose another: in one process both would lose their locks", () => {
    const place = installed(undefined);
    mkdirSync(join(place.resolve("better-sqlite3"), "..", "package.json"));
    expect(() => loadDriver({ require: place, runtime, builtIn })).toThrow(/EISDIR/);
  });

  it("a thread takes what the store has chosen, or fails", () => {
    const both = { require: installed(manifest("13.0.0")), runtime, builtIn };
    expect(loadDriver({ ...both, only: "node:sqlite" }).name).toBe("node:sqlite");
    const error = failure(() => loadDriver({ ...both, require: nowhere(), only: "better-sqlite3" }));
    expect(error.code).toBe("DRIVER_MISSING");
  });

  it("paths are opened as better-sqlite3 does: never as a URI, with its time to wait, and made only if they may be", () => {
    const driver = loadDriver({ require: nowhere(), runtime, builtIn });
    const options = { readonly: true, fileMustExist: false, timeout: 7 };
    opened.length = 0;
    openFile(driver, "file:keys.db", options);
    openFile(driver, ":memory:", { ...options, readonly: false, fileMustExist: true });
    expect(opened).toEqual([
      [join(process.cwd(), "file:keys.db"), { readOnly: true }],
      "PRAGMA busy_timeout = 7",
      [":memory:", { readOnly: false }],
      "PRAGMA busy_timeout = 7",
    ]);
    expect(() => openFile(driver, path(), { ...options, fileMustExist: true })).toThrow(/no database file/);
  });
});

describe("openFile", () => {
  const options = { readonly: false, fileMustExist: false, timeout: 0 };
  const failing = (message: string) => ({
    name: "better-sqlite3" as const,
    open(): never {
      throw new Error(message);
    },
  });

  it("says that the folder is missing; any other fault rises as it is", () => {
    const missing = "Cannot open database because the directory does not exist";
    expect(failure(() => openFile(failing(missing), "x.db", options)).code).toBe("STORE_FAILED");
    expect(() => openFile(failing("disk"), "x.db", options)).toThrow("disk");
  });
});
