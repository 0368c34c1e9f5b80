import { createHook } from "node:async_hooks";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { beforeAll, describe, expect, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring, createVerifier, memoryStore } from "../../src/index.js";
import type { VerifierOptions } from "../../src/verify/verifier-options.js";

// No clock is asked here: these are counts, the same on a slow machine, so that a later change cannot quietly undo the
// hot path.
const WORKER = join(import.meta.dirname, "worker.ts");
const FOLDER = join(import.meta.dirname, "../../.cache/hot-path");
const BUNDLE = join(FOLDER, "worker.mjs");
const RUN = promisify(execFile);
/**
 * One round of young memory takes all that is measured: nothing is collected meanwhile. The least size is cut to the
 * most, 16 by default.
 */
const NO_COLLECTION = ["--expose-gc", "--min-semi-space-size=128", "--max-semi-space-size=256"];

/**
 * Bytes per call: 975 to 1,020 with Node 20, as the compiler happens to pass numbers; some rounds with Node 22 keep
 * one object more.
 */
const MOST_BYTES = process.versions.node.startsWith("22.") ? 1_130 : 1_040;

interface Mode {
  readonly options?: VerifierOptions;
  /** Of the key, beside its permission and its limit. */
  readonly key?: object;
  /** Keys that are verified in turn. */
  readonly keys?: number;
}

const CREDITS = { credits: { remaining: 100_000 } };
const LEASED: VerifierOptions = { credits: { mode: "leased", firstStep: 250 } };
const MODES: readonly (readonly [name: string, mode: Mode, calls: Readonly<Record<string, number>>])[] = [
  ["leased", { options: LEASED, key: CREDITS }, { pollChanges: 1 }],
  ["exact", { key: CREDITS }, { pollChanges: 1, spendCredits: 1 }],
  ["found by its digest", { options: { ...LEASED, cache: { by: "digest" } }, key: CREDITS }, { pollChanges: 1 }],
  ["unlimited", {}, { pollChanges: 1 }],
  [
    "with identity and meta",
    { options: LEASED, key: { ...CREDITS, externalId: "user", meta: { plan: "pro" } } },
    { pollChanges: 1 },
  ],
  // Of two keys the cache has space for one, so every call is the first of its key.
  ["cold", { options: { ...LEASED, cache: { size: 1 } }, key: CREDITS, keys: 2 }, { pollChanges: 1, findKey: 1 }],
];

/** A warm verifier on a store that counts the calls it gets. */
async function warm({ options = {}, key: more = {}, keys: count = 1 }: Mode) {
  const { powers, ...methods } = memoryStore();
  const calls: Record<string, number> = {};
  const counted = Object.fromEntries(
    Object.entries(methods).map(([name, method]) => [
      name,
      (...parameters: never[]) => {
        calls[name] = (calls[name] ?? 0) + 1;
        return (method as (...of: never[]) => unknown)(...parameters);
      },
    ]),
  ) as unknown as typeof methods;
  const store: Store = { powers, ...counted };
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const ratelimits = [{ name: "requests", limit: 1_000, duration: 60_000, autoApply: true }];
  const keys: string[] = [];
  for (let n = 0; n < count; n++)
    keys.push((await keyring.createKey({ apiId, permissions: ["a.b"], ratelimits, ...more })).key);
  const verifier = createVerifier(store, options);
  let turn = 0;
  const verify = () => verifier.verify({ key: keys[turn++ % count] as string, permissions: "a.b" });
  for (let i = 0; i < 10; i++) expect((await verify()).code).toBe("VALID");
  for (const name of Object.keys(calls)) delete calls[name];
  return { verify, calls };
}

describe.each(MODES)("the hot path: %s", (_name, mode, callsEach) => {
  it("asks the store so often a call, and nothing else", async () => {
    const { verify, calls } = await warm(mode);
    for (let i = 0; i < 100; i++) expect((await verify()).code).toBe("VALID");
    expect(calls).toEqual(Object.fromEntries(Object.entries(callsEach).map(([name, count]) => [name, 100 * count])));
  });

  it("makes one promise a call, and has its answer ready when the call returns", async () => {
    const { verify } = await warm(mode);
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
    const ready = await Promise.race([
      Promise.all(answers.slice(0, 1)),
      Promise.resolve().then(() => Promise.resolve("later")),
    ]);
    expect(ready).not.toBe("later");
  });
});

describe("the hot path, compiled", () => {
  const measure = async (...more: string[]) => {
    const log = join(FOLDER, `v8${more.join("")}.log`);
    const flags = [...NO_COLLECTION, "--log-deopt", `--logfile=${log}`, "--no-logfile-per-isolate"];
    const { stdout } = await RUN(process.execPath, [...flags, BUNDLE, log, ...more]);
    // The engine may write of code that it gave up while it settled.
    return JSON.parse(stdout.trimEnd().split("\n").at(-1) as string) as { bytes: number; undone: string[] };
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

  it("is not undone by the compiler once it has settled, and allocates at most 1,040 bytes a call, 1,130 with Node 22", async () => {
    const { bytes, undone } = await measure();
    expect(undone).toEqual([]);
    expect(bytes).toBeGreaterThan(600);
    expect(bytes).toBeLessThan(MOST_BYTES);
  });

  it("control: code that has to be given up is seen", async () => {
    expect((await measure("--planted")).undone).not.toEqual([]);
  });
});
