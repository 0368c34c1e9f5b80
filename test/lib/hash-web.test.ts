import { createHash, createHmac } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

// The same as the programs of `hash.test.ts`, in this process: runtimes that lack node:crypto, or its quick hash.
const own = Object.getOwnPropertyDescriptor(process, "getBuiltinModule");
const crypto = { createHash, createHmac };

describe.each([
  ["without node:crypto", undefined],
  ["without crypto.hash", crypto],
])("a runtime %s", (_, builtin) => {
  beforeEach(() => {
    vi.resetModules();
    Object.defineProperty(process, "getBuiltinModule", { value: () => builtin, configurable: true });
  });
  afterEach(() => {
    if (own === undefined) Reflect.deleteProperty(process, "getBuiltinModule");
    else Object.defineProperty(process, "getBuiltinModule", own);
    vi.resetModules();
  });

  it("ruling E5: digests the same", async () => {
    const { digestKey, digestText } = await import("../../src/lib/hash.js");
    expect(await digestKey("ключ")).toBe(createHash("sha256").update("ключ").digest("base64"));
    expect(await digestText("sha512", "k", "hex")).toBe(createHash("sha512").update("k").digest("hex"));
    expect(await digestText("sha256", "k", "hex")).toBe(createHash("sha256").update("k").digest("hex"));
  });

  it("a hash at once is the same", async () => {
    const { sha256Hex } = await import("../../src/lib/sha256.js");
    expect(sha256Hex("ключ")).toBe(createHash("sha256").update("ключ").digest("hex"));
  });

  it("a keyed digest is the same", async () => {
    const { keyedDigest } = await import("../../src/lib/hash.js");
    const secret = "5".repeat(64);
    for (let i = 0; i < 20; i++) {
      const digest = createHmac("sha256", secret).update(`ключ ${i}`).digest("base64url");
      expect(await keyedDigest(secret, `ключ ${i}`)).toBe(digest.slice(0, 22));
    }
  });

  it("verifies keys, made here or imported, and knows them again without a digest", async () => {
    const { createKeyring, createVerifier, memoryStore } = await import("../../src/index.js");
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key } = await keyring.createKey({ apiId });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha512" });
    await keyring.migrateKeys({
      migrationId,
      apiId,
      keys: [{ hash: createHash("sha512").update("old").digest("hex") }],
    });
    const verifier = createVerifier(store, { workspaceId: "ws_default" });
    for (let i = 0; i < 3; i++) expect((await verifier.verify({ key })).code).toBe("VALID");
    expect((await verifier.verify({ key: "old" })).code).toBe("NOT_FOUND");
    for (let i = 0; i < 3; i++) expect((await verifier.verify({ key: "old", migrationId })).code).toBe("VALID");
    expect((await verifier.verify({ key: "old" })).code).toBe("VALID");
    expect((await verifier.verify({ key: `${key}x` })).code).toBe("NOT_FOUND");
    const { createAuthenticator } = await import("../../src/access/authenticate.js");
    const { key: rootKey, rootKeyId } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    expect(await createAuthenticator(store).authenticate(`Bearer ${rootKey}`)).toMatchObject({
      kind: "rootKey",
      id: rootKeyId,
    });
  });
});
