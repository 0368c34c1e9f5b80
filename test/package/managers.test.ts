/**
 * The packed tarball as other package managers than npm install it: a fresh folder each, the README's command, and its
 * first program as it stands. They and their Node come from npm when this runs.
 *
 * In Node 24, where better-sqlite3 needs no install script: these managers run none unless they are told to.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { blockAt, FIRST, INSTALL, toJavaScript } from "./blocks.js";
import { createStranger, type Stranger } from "./packed.js";

const platform = `${process.platform}-${process.arch}`;
const BUN: Readonly<Record<string, string>> = {
  "linux-x64": "@oven/bun-linux-x64",
  "linux-arm64": "@oven/bun-linux-aarch64",
};
const bun = BUN[platform];
if (bun === undefined) throw new Error(`package managers are tried on ${Object.keys(BUN).join(" and ")}`);

/** Each with the file of its package that runs it, by Node if that is no program itself. */
const MANAGERS = [
  { manager: "pnpm", from: "pnpm@12.21.0", program: ["pnpm"], byNode: false },
  { manager: "yarn 1", from: "yarn@1.22.22", program: ["bin", "yarn.js"], byNode: true },
  { manager: "yarn 4", from: "@yarnpkg/cli-dist@4.18.1", program: ["bin", "yarn.js"], byNode: true },
  { manager: "bun", from: `${bun}@1.4.5`, program: ["bin", "bun"], byNode: false },
];
const aliasOf = (manager: string): string => `manager-${manager.replace(" ", "-")}`;

let stranger: Stranger;
let bin: string;
let registry: string;

beforeAll(async () => {
  stranger = await createStranger();
  registry = (await stranger.run("npm", ["config", "get", "registry"])).trim();
  const managers = MANAGERS.map(({ manager, from }) => `${aliasOf(manager)}@npm:${from}`);
  const packages = [`node24@npm:node-${platform}@24.21.0`, ...managers];
  await stranger.run("npm", [
    "install",
    "--ignore-scripts",
    "--prefer-offline",
    "--no-audit",
    "--no-fund",
    ...packages,
  ]);
  bin = join(stranger.folder, "node_modules", "node24", "bin");
});
afterAll(() => stranger.remove());

describe("package: installed by another manager", () => {
  it.each(MANAGERS)("$manager: the README's command, and its first program", async ({ manager, program, byNode }) => {
    const folder = join(stranger.folder, aliasOf(manager));
    await mkdir(folder);
    await writeFile(join(folder, "package.json"), JSON.stringify({ name: "fresh", private: true }));
    // Where npm gets its packages from; yarn 4 has a file of its own for that, and would write no node_modules.
    await writeFile(join(folder, ".npmrc"), `registry=${registry}\n`);
    await writeFile(
      join(folder, ".yarnrc.yml"),
      `npmRegistryServer: ${registry}\nnodeLinker: node-modules\nenableTelemetry: false\nunsafeHttpWhitelist: ["*"]\n`,
    );
    await writeFile(join(folder, "yarn.lock"), "");
    await writeFile(join(folder, "first.mjs"), toJavaScript(blockAt(FIRST)));
    const [, , ...packages] = blockAt(INSTALL).split(" ");
    const file = join(stranger.folder, "node_modules", aliasOf(manager), ...program);
    const env = [`PATH=${bin}${delimiter}${process.env["PATH"] ?? ""}`, "CI=true"];
    const inFolder = (...command: string[]) => stranger.run("env", ["-C", folder, ...env, ...command]);
    const began = performance.now();
    await inFolder(
      ...(byNode ? ["node"] : []),
      file,
      "add",
      ...packages.map((name) => (name === "keystile" ? `keystile@file:${stranger.tarball}` : name)),
    );
    const installed = performance.now();
    const told = await inFolder("node", "first.mjs");
    const promised = /\/\/ → (.*)$/m.exec(blockAt(FIRST))?.[1];
    expect(told.split("\n")).toContain(promised);
    const seconds = (from: number, to: number) => ((to - from) / 1_000).toFixed(1);
    // Told, not judged: networks differ.
    console.log(
      `${manager}: ${seconds(began, installed)} s to install, ${seconds(installed, performance.now())} s to run`,
    );
  });
});
