import { describe, expect, it } from "vitest";
import { createHandler } from "../../../src/http/index.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { readBalances } from "../../../src/keyring/keys/read-balances.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { inspect, temporaryPaths } from "../../stores/sqlite/support.js";
import { fault } from "../support.js";

const path = temporaryPaths();

/**
 * A file of 20 keys with 100 credits each; the accounts of the keys with these indexes were changed by another tool.
 */
async function fileWithInvalid(...indexes: readonly number[]) {
  const place = path();
  const store = sqliteStore(place);
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const made: { readonly keyId: string; readonly key: string }[] = [];
  for (let i = 0; i < 20; i++) made.push(await keyring.createKey({ apiId, credits: { remaining: 100 } }));
  inspect(place, (db) => {
    db.pragma("ignore_check_constraints = ON");
    const spoil = db.prepare(
      `UPDATE keystile_accounts SET remaining = 1000000
       WHERE number = (SELECT number FROM keystile_keys WHERE id = ?)`,
    );
    for (const i of indexes) expect(spoil.run(made[i]!.keyId).changes).toBe(1);
  });
  return { store, keyring, apiId, made };
}

describe("readBalances: accounts that do not add up", () => {
  it("listKeys shows the whole page, and says of which keys the credits are invalid", async () => {
    const { store, keyring, apiId, made } = await fileWithInvalid(3, 4, 19);
    const expected = new Map(
      made.map(({ keyId }, i) => [
        keyId,
        [3, 4, 19].includes(i) ? { remaining: 0, invalid: true } : { remaining: 100 },
      ]),
    );
    const { data } = await keyring.listKeys({ apiId });
    expect(new Map(data.map(({ keyId, credits }) => [keyId, credits]))).toEqual(expected);
    for (const [keyId, credits] of expected) expect((await keyring.getKey({ keyId })).credits).toEqual(credits);

    const { key: rootKey } = await keyring.createRootKey({
      name: "reader",
      permissions: ["api.*.read_key", "api.*.read_api"],
    });
    const handler = createHandler(store);
    const request = new Request("http://localhost/v2/apis.listKeys", {
      method: "POST",
      headers: { authorization: `Bearer ${rootKey}`, "content-type": "application/json" },
      body: JSON.stringify({ apiId }),
    });
    const response = await handler(request);
    const body = (await response.json()) as { data: { keyId: string; credits: unknown }[] };
    expect(response.status).toBe(200);
    expect(new Map(body.data.map(({ keyId, credits }) => [keyId, credits]))).toEqual(expected);
    await handler.close();
    await store.close();
  });

  it("such a key refuses to spend, and takes no change but a new balance, after which it spends", async () => {
    const { store, keyring, made } = await fileWithInvalid(3);
    const { keyId, key } = made[3]!;
    const verifier = createVerifier(store);
    expect(await fault(verifier.verify({ key }))).toBe("STORE_INVALID 500");
    expect(await fault(keyring.updateCredits({ keyId, operation: "increment", value: 5 }))).toBe("STORE_INVALID 500");
    const refill = { interval: "daily", amount: 7 } as const;
    expect(await fault(keyring.updateKey({ keyId, credits: { refill } }))).toBe("STORE_INVALID 500");
    await keyring.updateKey({ keyId, name: "renamed" });
    expect(await fault(verifier.verify({ key }))).toBe("STORE_INVALID 500");
    expect(await keyring.updateCredits({ keyId, operation: "set", value: 2 })).toEqual({ remaining: 2 });
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", credits: 1 });
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 1 });
    await verifier.close();
    await store.close();
  });

  it("set to unlimited, it is valid again too", async () => {
    const { store, keyring, made } = await fileWithInvalid(0);
    const { keyId, key } = made[0]!;
    await keyring.updateCredits({ keyId, operation: "set", value: null });
    expect((await keyring.getKey({ keyId })).credits).toBeUndefined();
    const verifier = createVerifier(store);
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID" });
    await verifier.close();
    await store.close();
  });

  it("takes fewer than two calls of the store for each key, and passes on any other error", async () => {
    const { store, made } = await fileWithInvalid(...Array.from({ length: 20 }, (_, i) => i));
    let calls = 0;
    const counted = {
      readBalances: ((queries, now) => {
        calls++;
        return store.readBalances(queries, now);
      }) as typeof store.readBalances,
    };
    const queries = made.map(({ keyId }) => ({ keyId, period: 0 }));
    expect(await readBalances(counted, queries, 0)).toEqual(queries.map(() => "invalid"));
    expect(calls).toBeLessThan(2 * queries.length);
    await store.close();
    expect(await fault(readBalances(counted, queries, 0))).toBe("STORE_CLOSED 500");
  });
});
