import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../../src/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { allPermissions } from "../../../src/cli/database/database.js";
import { folder, run } from "../support.js";

const FOLDER = folder();

/** A file with a root key, and the console of it. */
async function start(name: string, argv: readonly string[] = []) {
  const file = join(FOLDER, name);
  const store = sqliteStore(file);
  const { key } = await createKeyring(store).createRootKey({ permissions: allPermissions() });
  await store.close();
  let stop = (): void => undefined;
  let url = "";
  let listening = (): void => undefined;
  const started = new Promise<void>((resolve) => (listening = resolve));
  const onWrite = (text: string): void => {
    url = /http:\S+/.exec(text)?.[0] ?? url;
    listening();
  };
  const onStop = (listener: () => void) => ((stop = listener), () => undefined);
  const ended = run(["console", "--db", file, "--port", "0", ...argv], { onStop, onWrite });
  await Promise.race([started, ended]);
  return { url, rootKey: key, stop: () => (stop(), ended) };
}

describe("console", () => {
  it("serves a file on this machine until it is stopped, and lets in whoever has a root key", async () => {
    const { url, rootKey, stop } = await start("console.db");
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const body = new URLSearchParams({ key: rootKey });
    const answer = await fetch(`${url}/sign-in`, {
      method: "POST",
      redirect: "manual",
      headers: { origin: url },
      body,
    });
    const cookie = answer.headers.get("set-cookie")?.split(";")[0] ?? "";
    expect([answer.status, await (await fetch(`${url}/keys`, { headers: { cookie } })).text()]).toEqual([
      303,
      expect.stringContaining("Create key"),
    ]);
    const { code, stdout, stderr } = await stop();
    expect([code, stderr]).toEqual([0, "stopped\n"]);
    expect(stdout).toBe(`keystile console of ${join(FOLDER, "console.db")} at ${url}\n`);
    await expect(fetch(url)).rejects.toThrow();
  });

  it("--read-only changes nothing", async () => {
    const { url, rootKey, stop } = await start("read-only.db", ["--read-only"]);
    const body = new URLSearchParams({ key: rootKey });
    const answer = await fetch(`${url}/sign-in`, {
      method: "POST",
      redirect: "manual",
      headers: { origin: url },
      body,
    });
    const cookie = answer.headers.get("set-cookie")?.split(";")[0] ?? "";
    const page = await (await fetch(`${url}/keys`, { headers: { cookie } })).text();
    expect([page.includes("read only"), page.includes("Create key")]).toEqual([true, false]);
    await stop();
  });

  it.each([
    [["--db", "/nowhere/keys.db"], 2, "there is no such file"],
    [["--db", "a.db", "--store", "postgres://localhost/app"], 2, "leave out one of them"],
    [["--store", "postgres://127.0.0.1:1/app"], 3, "cannot be reached"],
  ])("%j ends with %i", async (argv, code, text) => {
    const ended = await run(["console", ...argv]);
    expect([ended.code, ended.stderr]).toEqual([code, expect.stringContaining(text)]);
  });

  it("a port that is taken is said", async () => {
    const { url, stop } = await start("taken.db");
    const { code, stderr } = await run(["console", "--db", join(FOLDER, "taken.db"), "--port", new URL(url).port]);
    expect([code, stderr]).toEqual([3, expect.stringContaining("EADDRINUSE")]);
    await stop();
  });
});
