/** The filter `apiId` of a verification: keys of other APIs are unknown, and nothing is taken from them. */
import { describe, expect, it } from "vitest";
import { createVerifier } from "../../src/index.js";
import { digestKey } from "../../src/lib/hash.js";
import { limit, world } from "../spec/support.js";

describe("verify(request, { apiId })", () => {
  it("finds keys of this API alone, cached or not, and takes nothing from those of others", async () => {
    const { verifier, create, keyring, apiId } = await world();
    const { apiId: other } = await keyring.createApi({ name: "billing" });
    const { key } = await create({ credits: { remaining: 5 }, ratelimits: [limit("calls", { limit: 3 })] });
    for (let i = 0; i < 6; i++)
      expect(await verifier.verify({ key }, { apiId: other })).toEqual({ valid: false, code: "NOT_FOUND" });
    const result = await verifier.verify({ key }, { apiId });
    expect([result.code, result.credits, result.ratelimits?.[0]?.remaining]).toEqual(["VALID", 4, 2]);
    expect((await verifier.verify({ key }, { apiId: other })).code).toBe("NOT_FOUND");
    expect((await verifier.verify({ key })).credits).toBe(3);
  });

  it("gives a migrated key of another API no digest", async () => {
    const { verifier, keyring, apiId, store } = await world();
    const { migrationId } = await keyring.createMigration({ algorithm: "prefixed-api-key" });
    const hash = Buffer.from(await digestKey("secret"), "base64").toString("hex");
    const { migrated } = await keyring.migrateKeys({ migrationId, apiId, keys: [{ hash }] });
    const request = { key: "a_b_secret", migrationId };
    expect((await verifier.verify(request, { apiId: "api_other" })).code).toBe("NOT_FOUND");
    const [row] = await store.readMany("keys", [migrated[0]!.keyId]);
    expect(row?.digest).toBeUndefined();
    expect((await verifier.verify(request, { apiId })).code).toBe("VALID");
  });

  it.each([undefined, null, "", 1])("refuses %o, which must not open every API", async (apiId) => {
    const { verifier, create } = await world();
    await expect(verifier.verify({ key: (await create()).key }, { apiId } as never)).rejects.toThrow(
      /^context\.apiId must be/,
    );
  });

  it("is read from the context itself", async () => {
    const { verifier, create } = await world();
    const { key } = await create();
    const context = Object.create({ apiId: "api_other" }) as object;
    expect((await verifier.verify({ key }, { ...context })).code).toBe("VALID");
    expect((await createVerifier((await world()).store).verify({ key }, { apiId: "x" })).code).toBe("NOT_FOUND");
  });
});
