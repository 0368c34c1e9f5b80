/**
 * Every optional peer at the lowest and at the newest version of its range, beside the packed tarball. The table in
 * docs/runtimes.md is these versions; where CI is not set, the run writes it.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { noPostgres, startPostgres, type TestPostgres } from "../servers/postgres.js";
import { noRedis, startRedis, type TestRedis } from "../servers/redis.js";
import { createStranger, type Stranger } from "./packed.js";

interface Peer {
  readonly name: string;
  /** Of its range; npm's newest when it was last tried. */
  readonly lowest: string;
  readonly newest: string;
  /** Installed beside it, in the same version or in one of their own. */
  readonly with?: readonly string[];
}

const PEERS: readonly Peer[] = [
  { name: "express", lowest: "4.17.0", newest: "5.3.0" },
  { name: "fastify", lowest: "5.0.0", newest: "5.12.8" },
  { name: "hono", lowest: "4.0.0", newest: "4.13.19" },
  {
    name: "@nestjs/common",
    lowest: "10.0.0",
    newest: "12.5.1",
    with: ["@nestjs/core", "@nestjs/platform-express", "reflect-metadata@0.1.14", "rxjs@7.8.2"],
  },
  { name: "@opentelemetry/api", lowest: "1.9.0", newest: "1.9.1" },
  { name: "@trpc/server", lowest: "11.0.0", newest: "11.25.2" },
  { name: "pg", lowest: "8.0.3", newest: "8.23.1" },
  { name: "ioredis", lowest: "5.0.0", newest: "6.0.0" },
  { name: "redis", lowest: "5.0.0", newest: "6.3.1" },
];
const DOCS = join(process.cwd(), "docs", "runtimes.md");

let stranger: Stranger;
let postgres: TestPostgres | undefined;
let redis: TestRedis | undefined;

/** Nothing of one version may be found by a program that tries the other. */
const folderOf = (which: "lowest" | "newest"): string => join(stranger.folder, which);

async function install(which: "lowest" | "newest"): Promise<void> {
  const folder = folderOf(which);
  await mkdir(folder);
  await writeFile(join(folder, "package.json"), JSON.stringify({ name: which, private: true, type: "module" }));
  await writeFile(join(folder, "peers.mjs"), await readFile(join(stranger.folder, "peers.mjs")));
  const packages = PEERS.flatMap((peer) => [
    `${peer.name}@${peer[which]}`,
    ...(peer.with ?? []).map((name) => (name.includes("@", 1) ? name : `${name}@${peer[which]}`)),
  ]);
  const quiet = ["--omit=optional", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
  await stranger.run("npm", ["install", "--prefix", folder, ...quiet, stranger.tarball, ...packages]);
}

beforeAll(async () => {
  stranger = await createStranger();
  await Promise.all([install("lowest"), install("newest")]);
  if (noPostgres === undefined) postgres = await startPostgres();
  if (noRedis === undefined) redis = await startRedis();
});
afterAll(async () => {
  await postgres?.close();
  await redis?.close();
  await stranger.remove();
});

describe.each(["lowest", "newest"] as const)("peers: the %s version of their ranges", (which) => {
  it.each(PEERS.map((peer) => [peer.name, peer[which]]))("%s %s", async (name) => {
    if ((name === "pg" && postgres === undefined) || (name.endsWith("redis") && redis === undefined)) return;
    const env = [`DATABASE_URL=${(await postgres?.newDatabase()) ?? ""}`, `REDIS_URL=${redis?.url ?? ""}`];
    const program = join(folderOf(which), "peers.mjs");
    const printed = await stranger.run("env", [...env, process.execPath, program, name]);
    const isClient = ["pg", "ioredis", "redis", "@opentelemetry/api"].includes(name);
    expect(JSON.parse(printed)).toEqual(isClient ? ["VALID", "RATE_LIMITED"] : [200, 401]);
  });
});

describe("peers: documentation", () => {
  it("has the versions that are tried, and all peers are tried", async () => {
    const { peerDependencies } = JSON.parse(await readFile("package.json", "utf8")) as { peerDependencies: object };
    expect(PEERS.map(({ name }) => name).sort()).toEqual(Object.keys(peerDependencies).sort());
    const rows = PEERS.map(({ name, lowest, newest }) => `| \`${name}\` | ${lowest} | ${newest} |`);
    const table = ["| with | lowest | newest |", "| --- | --- | --- |", ...rows];
    const page = await readFile(DOCS, "utf8");
    const found = page.split("\n").filter((line) => line.startsWith("|"));
    if (process.env["CI"] === undefined) await writeFile(DOCS, page.replace(found.join("\n"), table.join("\n")));
    else expect(found.map(bare)).toEqual(table.map(bare));
  });
});

/** A row without what a formatter may change. */
const bare = (row: string): string => row.replaceAll(/\s+/g, " ").replaceAll(/-+/g, "-");
