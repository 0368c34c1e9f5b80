/** Two copies of the package in one process, as `import` and `require` load them. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { beforeAll, expect, it } from "vitest";
import * as one from "../../src/index.js";
import { ROOT } from "../structure/source.js";

let other: typeof one;

beforeAll(async () => {
  const folder = join(ROOT, ".cache", "two-copies");
  mkdirSync(folder, { recursive: true });
  const outfile = join(folder, "index.mjs");
  const entry = join(ROOT, "src", "index.ts");
  await build({ entryPoints: [entry], outfile, bundle: true, platform: "node", format: "esm", packages: "external" });
  other = (await import(outfile)) as typeof one;
});

async function withKey() {
  const store = one.memoryStore();
  const keyring = other.createKeyring(store);
  const { apiId } = await one.createKeyring(store).createApi({ name: "api" });
  const ratelimits = [{ name: "calls", limit: 2, duration: 60_000, autoApply: true }];
  const { key } = await keyring.createKey({ apiId, credits: { remaining: 10 }, ratelimits });
  return { store, keyring, key };
}

it("two copies: a store of one works with the other, whose errors isKeystileError recognises", async () => {
  const { store, keyring, key } = await withKey();
  const verifier = other.createVerifier(store);
  expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", credits: 9 });
  expect(await one.explain(verifier, { key })).toMatchObject({ passes: true });
  const error: unknown = await keyring.getKey({ keyId: "key_absent" }).catch((cause: unknown) => cause);
  expect([one.isKeystileError(error), other.isKeystileError(error)]).toEqual([true, true]);
  expect([error instanceof one.KeystileError, error instanceof other.KeystileError]).toEqual([false, true]);
});

it("two copies: each has default buckets of its own, and one limiter given to both is shared", async () => {
  const codes = async (options: () => { limiter?: ReturnType<typeof one.memoryLimiter> }) => {
    const { store, key } = await withKey();
    const verifiers = [one.createVerifier(store, options()), other.createVerifier(store, options())];
    const found: string[] = [];
    for (let i = 0; i < 6; i++) found.push((await verifiers[i % 2]!.verify({ key })).code);
    return found;
  };
  const [passed, refused] = ["VALID", "RATE_LIMITED"];
  expect(await codes(() => ({}))).toEqual([passed, passed, passed, passed, refused, refused]);
  const limiter = one.memoryLimiter();
  expect(await codes(() => ({ limiter }))).toEqual([passed, passed, refused, refused, refused, refused]);
});
