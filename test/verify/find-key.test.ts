/** Which key a text is: what the filters of a call let it see, and what each look-up asks of the store. */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createKeyring, createVerifier, KeystileError, type Store } from "../../src/index.js";
import { failure, world } from "../spec/support.js";

const hash = (text: string, algorithm = "sha256") => createHash(algorithm).update(text).digest("hex");

describe.each<[string, (store: Store) => Store]>([
  ["at once", (store) => store],
  ["a turn later", (store) => ({ ...store, findKey: async (digest) => store.findKey(digest) })],
])("a key that the store finds %s", (_, answering) => {
  it("is seen by a verifier of its workspace, and by no other", async () => {
    const { store, clock } = await world();
    const keyring = createKeyring(store, { clock, workspaceId: "ws_1" });
    const { key } = await keyring.createKey({ apiId: (await keyring.createApi({ name: "documents" })).apiId });
    const codes = ["ws_1", "ws_2", undefined].map(async (workspaceId) => {
      const verifier = createVerifier(answering(store), { clock, ...(workspaceId && { workspaceId }) });
      return (await verifier.verify({ key })).code;
    });
    expect(await Promise.all(codes)).toEqual(["VALID", "NOT_FOUND", "VALID"]);
  });

  it("is seen by a call for its API, and by none for another", async () => {
    const { store, clock, create, apiId } = await world();
    const verifier = createVerifier(answering(store), { clock });
    const { key } = await create();
    expect((await verifier.verify({ key }, { apiId: "api_other" })).code).toBe("NOT_FOUND");
    expect((await verifier.verify({ key }, { apiId })).code).toBe("VALID");
  });

  it("is looked for in a migration only if nothing has its native digest", async () => {
    const { store, clock, create, calls, keyring, apiId } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "sha512" });
    await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: hash("old", "sha512") }] });
    const verifier = createVerifier(answering(store), { clock });
    expect((await verifier.verify({ key: (await create()).key, migrationId })).code).toBe("VALID");
    expect(calls["findForeignKey"]).toBeUndefined();
    expect((await verifier.verify({ key: "old", migrationId })).code).toBe("VALID");
    expect((await verifier.verify({ key: "older", migrationId })).code).toBe("NOT_FOUND");
    expect(calls["findForeignKey"]).toBe(2);
  });
});

describe("a look-up", () => {
  it("asks for a root key only where the text has the prefix of one", async () => {
    const { verify, create, calls } = await world();
    const { key } = await create();
    for (const text of [key, "r", "rooted_1", "xroot_1", " root_1", "Root_1"]) await verify({ key: text });
    expect(calls["findRootKey"]).toBeUndefined();
    expect((await verify({ key: "root_1" })).code).toBe("NOT_FOUND");
    expect(calls["findRootKey"]).toBe(1);
  });

  it("in a migration asks for no text that cannot have been one of its keys", async () => {
    const { verify, keyring, calls } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "prefixed-api-key" });
    expect((await verify({ key: "nounderscores", migrationId })).code).toBe("NOT_FOUND");
    expect(calls["findForeignKey"]).toBeUndefined();
  });

  it("gives a migrated key its native digest once, also if other texts lead to it", async () => {
    const { verify, keyring, apiId, calls } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "prefixed-api-key" });
    await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: hash("long") }] });
    for (const key of ["app_1_long", "app_2_long", "app_3_long"])
      expect((await verify({ key, migrationId })).code).toBe("VALID");
    expect(calls["adoptDigest"]).toBe(1);
  });

  it("passes no call whose native digest could not be written, but where the store is read-only", async () => {
    const { store, clock, keyring, apiId } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "sha512" });
    await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash: hash("old", "sha512") }] });
    const refusing = (error: KeystileError) =>
      createVerifier({ ...store, adoptDigest: () => Promise.reject(error) }, { clock }).verify({
        key: "old",
        migrationId,
      });
    expect((await failure(refusing(new KeystileError("STORE_BUSY", "busy")))).code).toBe("STORE_BUSY");
    expect((await refusing(new KeystileError("STORE_READ_ONLY", "read-only"))).code).toBe("VALID");
  });
});
