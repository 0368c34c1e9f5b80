import { execFile } from "node:child_process";
import { createHook } from "node:async_hooks";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { beforeAll, describe, expect, it } from "vitest";
import { createKeyring, createVerifier, memoryStore } from "../../src/index.js";
import type { Store } from "../../src/store.js";

// No clock is asked here: these are counts, the same on a slow machine, so that a later change cannot quietly undo the hot path.
const WORKER = join(import.meta.dirname, "worker.ts");
const FOLDER = join(import.meta.dirname, "../../.cache/hot-path");
const BUNDLE = join(FOLDER, "worker.mjs");
const RUN = promisify(execFile);
/** One round of young memory takes all that is measured: nothing is collected meanwhile. The least size is cut to the most, 16 by default. */
const NO_COLLECTION = ["--expose-gc", "--min-semi-space-size=128", "--max-semi-space-size=256"];

/** Bytes a call, 965 with Node 20 and 24; some rounds with Node 22 keep one object more, 1,154. */
const MOST_BYTES = process.versions.node.startsWith("22.") ? 1_200 : 1_100;

/** A warm verifier on a store that counts the calls it gets. */
async function warm() {
  const inner = memoryStore();
  const calls: Record<string, number> = {};
  const store = Object.fromEntries(
    Object.entries(inner).map(([name, method]) => [
      name,
      (...parameters: never[]) => {
        calls[name] = (calls[name] ?? 0) + 1;
        return (method as (...of: never[]) => unknown)(...parameters);
      },
    ]),
  ) as unknown as Store;
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const ratelimits = [{ name: "requests", limit: 1_000, duration: 60_000, autoApply: true }];
  const { key } = await keyring.createKey({ apiId, permissions: ["a.b"], credits: { remaining: 100_000 }, ratelimits });
  const verifier = createVerifier(store, { credits: { mode: "leased" } });
  const verify = () => verifier.verify({ key, permissions: "a.b" });
  for (let i = 0; i < 10; i++) expect((await verify()).code).toBe("VALID");
  for (const name of Object.keys(calls)) calls[name] = 0;
  return { verify, calls };
}

describe("the hot path", () => {
  it("asks the store once a call whether anything changed, and nothing else", async () => {
    const { verify, calls } = await warm();
    for (let i = 0; i < 100; i++) expect((await verify()).code).toBe("VALID");
    expect(Object.entries(calls).filter(([, count]) => count > 0)).toEqual([["catchUp", 100]]);
  });

  it("makes one promise a call, and has its answer ready when the call returns", async () => {
    const { verify } = await warm();
    let promises = 0;
    const hook = createHook({
      init(_, type) {
        if (type === "PROMISE") promises++;
      },
    });
    hook.enable();
    const answers = Array.from({ length: 100 }, verify);
    hook.disable();
    expect(promises).toBe(100);
    const ready = await Promise.race([Promise.all(answers.slice(0, 1)), Promise.resolve().then(() => Promise.resolve("later"))]);
    expect(ready).not.toBe("later");
  });
});

describe("the hot path, compiled", () => {
  const measure = async (...more: string[]) => {
    const log = join(FOLDER, `v8${more.join("")}.log`);
    const flags = [...NO_COLLECTION, "--log-deopt", `--logfile=${log}`, "--no-logfile-per-isolate"];
    const { stdout } = await RUN(process.execPath, [...flags, BUNDLE, log, ...more]);
    return JSON.parse(stdout) as { bytes: number; undone: string[] };
  };
  beforeAll(async () => {
    await build({
      entryPoints: [WORKER],
      outfile: BUNDLE,
      bundle: true,
      platform: "node",
      format: "esm",
      logLevel: "error",
      packages: "external",
    });
  });

  it("is not undone by the compiler once it has settled, and allocates at most 1,100 bytes a call, 1,200 with Node 22", async () => {
    const { bytes, undone } = await measure();
    expect(undone).toEqual([]);
    expect(bytes).toBeGreaterThan(600);
    expect(bytes).toBeLessThan(MOST_BYTES);
  });

  it("control: code that has to be given up is seen", async () => {
    expect((await measure("--planted")).undone).not.toEqual([]);
  });
});
