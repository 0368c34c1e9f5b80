/**
 * Programs make verifiers and handlers at module scope, where Cloudflare's workers refuse random numbers, timers and
 * whatever waits.
 */
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Store } from "../src/contracts/store.js";
import { createAuthenticator, createHandler, createNodeListener, createServer } from "../src/http/index.js";
import { createKeyring, createRatelimits, createVerifier, memoryLimiter, memoryStore } from "../src/index.js";
import { counting } from "./spec/support.js";

const { crypto } = globalThis;
/** Counts what is refused there. Read at once: the runner sets timers too, when it gets a turn. */
function refused() {
  const spies = {
    getRandomValues: vi.spyOn(crypto, "getRandomValues"),
    randomUUID: vi.spyOn(crypto, "randomUUID"),
    random: vi.spyOn(Math, "random"),
    digest: vi.spyOn(crypto.subtle, "digest"),
    importKey: vi.spyOn(crypto.subtle, "importKey"),
    setTimeout: vi.spyOn(globalThis, "setTimeout"),
    setInterval: vi.spyOn(globalThis, "setInterval"),
    setImmediate: vi.spyOn(globalThis, "setImmediate"),
    fetch: vi.spyOn(globalThis, "fetch"),
  };
  return () => Object.entries(spies).flatMap(([name, { mock }]) => mock.calls.map(() => name));
}
afterEach(() => void vi.restoreAllMocks());

const proxyTokens = { issuer: "i", audience: "a", keys: [{ secret: "a secret of thirty-two characters" }] };
const requestLimit = { limit: 10, duration: 1_000 };

describe("module scope: what is made there draws nothing, sets no timer and waits for nothing", () => {
  it.each<[string, (store: Store) => unknown]>([
    ["memoryStore", () => memoryStore()],
    ["memoryLimiter", () => memoryLimiter()],
    ["createKeyring", (store) => createKeyring(store)],
    ["createRatelimits", (store) => createRatelimits(store)],
    ["createVerifier", (store) => createVerifier(store)],
    [
      "createVerifier, leased",
      (store) => createVerifier(store, { credits: { mode: "leased" }, onOutcome: () => undefined }),
    ],
    [
      "createVerifier, a limiter of its own",
      (store) => createVerifier(store, { limiter: memoryLimiter(), cache: { ttl: 5 } }),
    ],
    ["createVerifier, by digest", (store) => createVerifier(store, { cache: { by: "digest" } })],
    ["createAuthenticator", (store) => createAuthenticator(store, { proxyTokens })],
    ["createHandler", (store) => createHandler(store, { requestLimit, metrics: true, log: () => undefined })],
    ["createNodeListener", (store) => createNodeListener(store)],
    ["createServer", (store) => createServer(store)],
  ])("%s", (_, make) => {
    const { store, calls } = counting(memoryStore());
    const done = refused();
    make(store);
    expect(done()).toEqual([]);
    // To listen for changes is no waiting.
    expect(Object.keys(calls).filter((name) => name !== "subscribe")).toEqual([]);
  });

  it("nor do the modules themselves", async () => {
    vi.resetModules();
    const draw = vi.spyOn(crypto, "getRandomValues");
    await Promise.all([import("../src/index.js"), import("../src/http/index.js")]);
    expect(draw).not.toHaveBeenCalled();
  });

  it("the first request draws, and no later one: the table of fingerprints is filled once", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const limits = ["a", "b"].map((name) => ({ name: `limit ${name}`, limit: 9, duration: 60_000, autoApply: true }));
    const { key } = await keyring.createKey({ apiId, ratelimits: limits, credits: { remaining: 9 } });
    const draw = vi.spyOn(crypto, "getRandomValues");
    const verifier = createVerifier(store, { credits: { mode: "leased" } });
    const drawn: number[] = [];
    for (let call = 0; call < 3; call++) {
      expect(await verifier.verify({ key })).toMatchObject({ code: "VALID" });
      drawn.push(draw.mock.calls.length);
    }
    expect(drawn[0]).toBeGreaterThan(0);
    expect(drawn).toEqual([drawn[0], drawn[0], drawn[0]]);
    await verifier.close();
  });
});
