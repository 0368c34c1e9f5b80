/** How many calls of the store an operation makes: each is a round trip where the store is across a network. */
import { describe, expect, it } from "vitest";
import { createRatelimits } from "../../src/keyring/ratelimits/create-ratelimits.js";
import { memoryStore } from "../../src/stores/memory.js";
import { counting } from "../spec/support.js";
import { DAY, world, unaudited } from "./support.js";

const KEYS = 100;
const DAILY = { interval: "daily", amount: 5 } as const;

/** A page of keys, each with roles, permissions, an identity and credits of its own, and with shared ones. */
async function full() {
  const { store, calls } = counting(unaudited());
  const { keyring, apiId, create, time } = await world({ store });
  const ratelimits = createRatelimits(store, { clock: () => time.now });
  await ratelimits.createNamespace({ name: "email" });
  const keyIds: string[] = [];
  for (let i = 0; i < KEYS; i++) {
    time.now++;
    await keyring.createRole({ name: `role_${i}`, permissions: ["shared", `of.role.${i}`] });
    const { keyId } = await create({
      externalId: `user_${i}`,
      roles: [`role_${i}`, "role_0"],
      permissions: ["shared", `of.key.${i}`],
      credits: { remaining: i, ...(i % 2 === 0 && { refill: DAILY }) },
    });
    keyIds.push(keyId);
    await keyring.createRootKey({ name: `root ${i}`, permissions: [] });
    await ratelimits.setOverride({ namespace: "email", identifier: `user_${i}`, limit: 5, duration: 60_000 });
  }
  /** Calls that read or write, by method. */
  const during = async (act: () => Promise<unknown>) => {
    for (const name of Object.keys(calls)) delete calls[name];
    await act();
    return { ...calls };
  };
  return { keyring, ratelimits, apiId, keyIds, time, during };
}

describe("calls of the store", () => {
  it("a limit in a namespace that is given by its id takes two round trips", async () => {
    const store = memoryStore();
    let trips = 0;
    let inFlight = 0;
    const far = async <T>(read: () => T): Promise<Awaited<T>> => {
      if (inFlight++ === 0) trips++;
      await new Promise((resolve) => setTimeout(resolve, 1));
      inFlight--;
      return await read();
    };
    const ratelimits = createRatelimits({
      ...store,
      readNames: (...given) => far(() => store.readNames(...given)),
      readMany: (...given) => far(() => store.readMany(...given)),
    });
    const { namespaceId } = await ratelimits.createNamespace({ name: "email" });
    for (const namespace of ["email", namespaceId]) {
      trips = 0;
      await ratelimits.limit({ namespace, identifier: "user_1", limit: 10, duration: 60_000 });
      expect(trips, namespace).toBe(2);
    }
  });

  it("a page of a hundred keys takes seven, eight by externalId, as many as one key", async () => {
    const { keyring, apiId, keyIds, time, during } = await full();
    time.now += DAY;
    const page = { readMany: 5, list: 1, readBalances: 1 };
    const { data } = await keyring.listKeys({ apiId, limit: KEYS });
    expect(data.map(({ keyId }) => keyId)).toEqual(keyIds);
    for (const [i, key] of data.entries()) {
      expect(key).toMatchObject({
        permissions: [`of.key.${i}`, "shared"],
        roles: i === 0 ? ["role_0"] : ["role_0", `role_${i}`],
        identity: { externalId: `user_${i}` },
        credits: i % 2 === 0 ? { remaining: i + 5, refill: DAILY } : { remaining: i },
      });
    }
    expect(await during(() => keyring.listKeys({ apiId, limit: KEYS }))).toEqual(page);
    expect(await during(() => keyring.listKeys({ apiId, limit: 1 }))).toEqual(page);
    expect(await during(() => keyring.listKeys({ apiId, externalId: "user_7" }))).toEqual({ ...page, readNames: 1 });
    expect(await during(() => keyring.getKey({ keyId: keyIds[1]! }))).toEqual({ readMany: 6, readBalances: 1 });
  });

  it("a page of what refers to nothing takes one, a page of roles two", async () => {
    const { keyring, ratelimits, during } = await full();
    for (const list of [keyring.listIdentities, keyring.listPermissions, keyring.listRootKeys])
      expect(await during(() => list({ limit: KEYS }))).toEqual({ list: 1 });
    expect(await during(() => keyring.listRoles({ limit: KEYS }))).toEqual({ list: 1, readMany: 1 });
    expect(await during(() => ratelimits.listOverrides({ namespace: "email", limit: KEYS }))).toEqual({
      readNames: 1,
      list: 1,
    });
  });

  it("changing the grants of a key takes as many for a hundred as for one", async () => {
    const { keyring, keyIds, during } = await full();
    const [one, other] = keyIds as [string, string];
    const names = Array.from({ length: KEYS }, (_, i) => i);
    const roles = (keyId: string, count: number) => () =>
      keyring.setRoles({ keyId, roles: names.slice(0, count).map((i) => `role_${i}`) });
    expect(await during(roles(one, KEYS))).toEqual(await during(roles(other, 1)));
    const permissions = (keyId: string, count: number) => () =>
      keyring.setPermissions({ keyId, permissions: names.slice(0, count).map((i) => `of.key.${i}`) });
    expect(await during(permissions(one, KEYS))).toEqual(await during(permissions(other, 1)));
    expect(await during(roles(one, KEYS - 1))).toEqual({ readMany: 8, readNames: 1, write: 1 });
  });

  it("limits of many namespaces, by id and by name, take as many as one", async () => {
    const { ratelimits, during } = await full();
    const names = Array.from({ length: 20 }, (_, i) => `name_${i}`);
    const ids: string[] = [];
    for (const name of names) ids.push((await ratelimits.createNamespace({ name })).namespaceId);
    const check = (namespace: string) => ({ namespace, identifier: "user", limit: 9, duration: 60_000 });
    expect(await during(() => ratelimits.multiLimit([...ids, ...names].map(check)))).toEqual({
      readNames: 2,
      readMany: 1,
    });
  });

  it("a page that names more rows than fit in one call takes four more for each thousand at most", async () => {
    const { keyring, apiId, keyIds, during } = await full();
    for (const [n, keyId] of keyIds.slice(0, 3).entries()) {
      const permissions = Array.from({ length: 999 }, (_, i) => `p.${n}.${i}`);
      await keyring.setPermissions({ keyId, permissions });
    }
    // Three keys with a thousand each, and the other 97: permissions, roles and identities of four batches.
    expect(await during(() => keyring.listKeys({ apiId, limit: KEYS }))).toEqual({
      readMany: 14,
      list: 1,
      readBalances: 4,
    });
  });
});
