/**
 * examples/next in Next itself, with the packed tarball: routes, proxy, and the one verifier of all. Next comes
 * from npm when this runs, 320 MB of it: `npm run runtimes` alone asks for that.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeyring } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createStranger, type Stranger, tool } from "./packed.js";

const PACKAGES = ["next@16.4.6", "react@19", "react-dom@19", "@types/react@19"];
const NEXT = ["node_modules", "next", "dist", "bin", "next"];

let stranger: Stranger;
let server: ChildProcess | undefined;
/** Starts `next dev`. @returns its address */
function start(env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn(process.execPath, [join(stranger.folder, ...NEXT), "dev", "--port", "0"], {
    cwd: stranger.folder,
    env: { ...process.env, NODE_ENV: "development", NEXT_TELEMETRY_DISABLED: "1", ...env },
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  server = child;
  return new Promise((resolve, reject) => {
    let said = "";
    // Read to its end: a server that cannot write its log stands still.
    child.stdout.on("data", (data: Buffer) => {
      said += data.toString();
      const [url] = /http:\/\/localhost:\d+/.exec(said) ?? [];
      if (url !== undefined) resolve(url);
    });
    child.once("exit", () => reject(new Error(`next dev ended before it listened: ${said}`)));
  });
}

describe.skipIf(process.env["TEST_NEXT"] !== "1")("package: Next", () => {
  beforeAll(async () => {
    stranger = await createStranger();
    const quiet = ["--omit=optional", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
    await stranger.run("npm", ["install", ...quiet, ...PACKAGES, "@next/swc-linux-x64-gnu@16.4.6"]);
    await cp(join(process.cwd(), "examples", "next"), stranger.folder, { recursive: true });
    for (const name of ["better-sqlite3", "bindings", "file-uri-to-path", "typescript", "@types/node", "undici-types"])
      await symlink(tool(name), join(stranger.folder, "node_modules", name), "dir").catch(() => undefined);
  });
  afterAll(async () => {
    if (server?.pid !== undefined && server.exitCode === null) {
      process.kill(-server.pid, "SIGKILL"); // its children too
      await once(server, "exit");
    }
    await stranger.remove();
  });

  it("examples/next: routes and the proxy refuse, and share one verifier with its limits", async () => {
    const path = join(stranger.folder, "keys.db");
    const store = sqliteStore(path);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ apiId: "api_documents", name: "documents" });
    const ratelimits = [{ name: "requests", limit: 3, duration: 3_600_000, autoApply: true }];
    const permissions = ["documents.read"];
    const { key } = await keyring.createKey({ apiId, permissions, ratelimits, credits: { remaining: 10 } });
    const mayNot = await keyring.createKey({ apiId, ratelimits });
    const url = await start({ KEYS_DB: path });
    const call = async (route: string, text?: string) => {
      const response = await fetch(
        `${url}/documents${route}`,
        text === undefined ? {} : { headers: { "x-api-key": text } },
      );
      return [response.status, (await response.json()) as Record<string, unknown>] as const;
    };
    expect(await call("")).toEqual([401, expect.objectContaining({ code: "KEY_MISSING" })]);
    expect(await call("", mayNot.key)).toEqual([403, expect.objectContaining({ code: "INSUFFICIENT_PERMISSIONS" })]);
    expect(await call("", key)).toEqual([200, expect.objectContaining({ documents: [] })]);
    // The proxy has charged nothing.
    expect(await call("/7", key)).toEqual([200, { id: "7", credits: 7 }]);

    // Each route and the proxy are bundles of their own: a verifier in each would grant three more.
    expect((await call("", key))[0]).toBe(200);
    expect(await call("/7", key)).toEqual([429, expect.objectContaining({ code: "RATE_LIMITED" })]);
    await store.close();
  });
});
