/**
 * Credits and state of an identity over HTTP: new requests are taken, and no response of the contract gains a field
 * unless the state is not the usual one.
 */
import { describe, expect, it } from "vitest";
import { HOSTS, world } from "./support.js";

describe.each(HOSTS)("credits of an identity on the %s host", (host) => {
  it("a customer is suspended and a trial ends in one call, and who reads the identity sees it", async () => {
    const { call, apiId, close } = await world({ host });
    const dataOf = async (name: string, body: object): Promise<unknown> => (await call(name, body)).body.data;
    const expires = 4_000_000_000_000;
    await dataOf("identities.createIdentity", { externalId: "ada", expires });
    const { key, keyId } = (await dataOf("keys.createKey", { apiId, externalId: "ada" })) as Record<string, string>;
    expect(await dataOf("keys.verifyKey", { key })).toMatchObject({ code: "VALID" });
    const identity = { id: expect.any(String) as string, externalId: "ada" };
    const suspended = { ...identity, enabled: false, expires };
    expect(await dataOf("identities.updateIdentity", { identity: "ada", enabled: false })).toEqual(suspended);
    expect(await dataOf("identities.getIdentity", { identity: "ada" })).toEqual(suspended);
    expect(await dataOf("identities.listIdentities", {})).toEqual([suspended]);
    expect(await dataOf("identities.listIdentities", { details: true })).toEqual([{ ...suspended, keyCount: 1 }]);
    const refused = (await dataOf("keys.verifyKey", { key })) as object;
    expect(refused).toMatchObject({ code: "FORBIDDEN", enabled: true, identity: expect.objectContaining(identity) });
    expect(refused).not.toHaveProperty("expires");
    expect(refused).not.toHaveProperty("identity.enabled");
    expect(await dataOf("keys.explainKey", { keyId })).toMatchObject({ refusal: "FORBIDDEN" });
    const ended = { identity: "ada", enabled: true, expires: 1_000_000_000_000 };
    expect(await dataOf("identities.updateIdentity", ended)).toEqual({ ...identity, expires: ended.expires });
    expect(await dataOf("keys.verifyKey", { key })).toMatchObject({ code: "EXPIRED" });
    expect(await dataOf("identities.updateIdentity", { identity: "ada", expires: null })).toEqual(identity);
    expect(await dataOf("keys.verifyKey", { key })).toMatchObject({ code: "VALID" });
    const inSeconds = await call("identities.updateIdentity", { identity: "ada", expires: 1_900_000_000 });
    expect(inSeconds.status).toBe(400);
    await close();
  });

  it("are given, drawn on, shown by the operation that sets them, and end with a 409 or with disabled keys", async () => {
    const { call, apiId, close } = await world({ host });
    const dataOf = async (name: string, body: object): Promise<unknown> => (await call(name, body)).body.data;
    const credits = { remaining: 10, refill: { interval: "daily", amount: 1 } };
    expect(await dataOf("identities.createIdentity", { externalId: "ada", credits })).toEqual({
      identityId: expect.any(String),
    });
    const made = (await dataOf("keys.createKey", { apiId, externalId: "ada" })) as { key: string; keyId: string };
    expect(await dataOf("keys.verifyKey", { key: made.key, credits: { cost: 4 } })).toMatchObject({ credits: 6 });
    const identity = { id: expect.any(String) as string, externalId: "ada" };
    expect(await dataOf("identities.getIdentity", { identity: "ada" })).toEqual(identity);
    expect(await dataOf("identities.updateIdentity", { identity: "ada", credits: { refill: null } })).toEqual(identity);
    expect(await dataOf("keys.getKey", { keyId: made.keyId })).toEqual({
      ...{ keyId: made.keyId, enabled: true, identity },
      ...{ start: expect.any(String) as string, createdAt: expect.any(Number) as number },
    });
    const raise = { identity: "ada", operation: "increment", value: 1 };
    expect(await dataOf("identities.updateCredits", raise)).toEqual({ remaining: 7 });
    expect((await call("identities.deleteIdentity", { identity: "ada" })).status).toBe(409);
    await dataOf("keys.updateKey", { keyId: made.keyId, creditsFrom: "none" });
    expect(await dataOf("keys.verifyKey", { key: made.key, credits: { cost: 99 } })).not.toHaveProperty("credits");
    await dataOf("keys.updateKey", { keyId: made.keyId, creditsFrom: "identity" });
    expect(await dataOf("identities.deleteIdentity", { identity: "ada", keys: "disable" })).toEqual({});
    expect(await dataOf("keys.verifyKey", { key: made.key })).toMatchObject({ code: "DISABLED" });
    await close();
  });
});
