/** Credits of an identity over HTTP: new requests are taken, and no response of the contract gains a field. */
import { describe, expect, it } from "vitest";
import { HOSTS, world } from "./support.js";

describe.each(HOSTS)("credits of an identity on the %s host", (host) => {
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
