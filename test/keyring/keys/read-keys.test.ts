import { describe, expect, it } from "vitest";
import { readCursor, writeCursor } from "../../../src/keyring/schemas/cursor.js";
import { changed, fault, limit, problems, refOf, world } from "../support.js";

describe("getKey and whoami: one key", () => {
  it("whoami answers the record of the key whose text it is", async () => {
    const { keyring, create } = await world();
    const { keyId, key } = await create({ name: "mine", credits: { remaining: 3 } });
    expect(await keyring.whoami({ key })).toEqual(await keyring.getKey({ keyId }));
  });

  it("unknown, deleted and mistyped keys are 404, with one text", async () => {
    const { keyring, create } = await world();
    const { keyId, key } = await create();
    expect(await fault(keyring.whoami({ key: `${key}x` }))).toBe("NOT_FOUND 404");
    expect(await fault(keyring.whoami({ key: "a\0b" }))).toBe("NOT_FOUND 404");
    await keyring.deleteKey({ keyId });
    expect(await fault(keyring.whoami({ key }))).toBe("NOT_FOUND 404");
    expect(await fault(keyring.getKey({ keyId }))).toBe("NOT_FOUND 404");
    expect(await fault(keyring.getKey({ keyId: "key_unknown" }))).toBe("NOT_FOUND 404");
  });

  it("contract 8: limits beyond the bounds of answers are shown within them, on keys and identities, in every verb that shows them", async () => {
    const { keyring, apiId, create } = await world();
    const ratelimits = [
      limit("big", { limit: 5_000_000, duration: 10 ** 12 }),
      limit("small", { limit: 1, duration: 1_000 }),
    ];
    const shown = [
      { name: "big", limit: 1_000_000, duration: 2_592_000_000 },
      { name: "small", limit: 1, duration: 1_000 },
    ];
    await keyring.createIdentity({ externalId: "user_1", ratelimits });
    const { keyId, key } = await create({ ratelimits, externalId: "user_1" });
    const keys = [
      await keyring.getKey({ keyId }),
      await keyring.whoami({ key }),
      ...(await keyring.listKeys({ apiId })).data,
    ];
    for (const one of keys) expect(one).toMatchObject({ ratelimits: shown, identity: { ratelimits: shown } });
    const identity = "user_1";
    const identities = [
      await keyring.getIdentity({ identity }),
      await keyring.updateIdentity({ identity, meta: {} }),
      ...(await keyring.listIdentities()).data,
    ];
    for (const one of identities) expect(one).toMatchObject({ ratelimits: shown });
  });

  it("shows the balance as it stands, and null where the store knows none any more", async () => {
    const { keyring, store, create } = await world();
    const { keyId } = await create({ credits: { remaining: 3 } });
    await store.spendCredits(await refOf(store, keyId), 2, 0, 0);
    expect((await keyring.getKey({ keyId })).credits).toEqual({ remaining: 1 });
    const other = await world({ store: changed(store, { readBalances: (queries) => queries.map(() => undefined) }) });
    expect((await other.keyring.getKey({ keyId })).credits).toEqual({ remaining: null });
  });
});

describe("listKeys: pages", () => {
  it("port clause 16: every key once, ordered by id, however the pages are cut", async () => {
    const { keyring, apiId, create, time } = await world();
    const ids: string[] = [];
    for (let i = 0; i < 7; i++) {
      time.now += 1;
      ids.push((await create()).keyId);
    }
    await keyring.createKey({ apiId: (await keyring.createApi({ name: "other" })).apiId });
    for (const limit of [1, 2, 3, 7, 100]) {
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await keyring.listKeys({ apiId, limit, ...(cursor !== undefined && { cursor }) });
        expect(page.data.length).toBe(Math.min(limit, 7 - seen.length));
        seen.push(...page.data.map(({ keyId }) => keyId));
        expect(page.pagination.hasMore).toBe(page.pagination.cursor !== undefined);
        expect(page.pagination.cursor?.length ?? 1).toBeLessThanOrEqual(1_024);
        cursor = page.pagination.cursor;
      } while (cursor !== undefined);
      expect(seen).toEqual([...ids].sort());
    }
  });

  it("deleted keys are passed over, also when they fill a page", async () => {
    const { keyring, apiId, create, time } = await world();
    const ids: string[] = [];
    for (let i = 0; i < 9; i++) {
      time.now += 1;
      ids.push((await create()).keyId);
    }
    for (const keyId of ids.slice(1, 8)) await keyring.deleteKey({ keyId });
    const first = await keyring.listKeys({ apiId, limit: 1 });
    expect(first.data.map(({ keyId }) => keyId)).toEqual([ids[0]]);
    const second = await keyring.listKeys({ apiId, limit: 1, cursor: first.pagination.cursor! });
    expect(second.data.map(({ keyId }) => keyId)).toEqual([ids[8]]);
    expect(second.pagination).toEqual({ hasMore: false });
    await keyring.deleteKey({ keyId: ids[0]! });
    await keyring.deleteKey({ keyId: ids[8]! });
    expect(await keyring.listKeys({ apiId, limit: 2 })).toEqual({ data: [], pagination: { hasMore: false } });
  });

  it("by externalId: only keys of that identity; none for one that does not exist", async () => {
    const { keyring, apiId, create } = await world();
    await create();
    const { keyId } = await create({ externalId: "user_1" });
    await create({ externalId: "user_2" });
    const page = await keyring.listKeys({ apiId, externalId: "user_1", decrypt: false, revalidateKeysCache: true });
    expect(page.data.map((key) => key.keyId)).toEqual([keyId]);
    expect(await keyring.listKeys({ apiId, externalId: "nobody" })).toEqual({
      data: [],
      pagination: { hasMore: false },
    });
  });

  it("reads a row that several keys share once", async () => {
    const { keyring, store, apiId, create } = await world();
    await keyring.createRole({ name: "reader" });
    for (let i = 0; i < 3; i++) await create({ roles: ["reader"], permissions: ["a"], externalId: "user_1" });
    const read: string[] = [];
    const counting = changed(store, {
      readMany: (table, ids) => {
        read.push(table);
        return store.readMany(table, ids);
      },
    });
    const { data } = await (await world({ store: counting })).keyring.listKeys({ apiId });
    const shown = { roles: ["reader"], permissions: ["a"], identity: { externalId: "user_1" } };
    expect(data).toMatchObject([shown, shown, shown]);
    expect(read).toEqual(["apis", "permissions", "roles", "identities", "workspaces"]);
  });

  it("the cursor of one list is refused by another", async () => {
    const { keyring, apiId, create } = await world();
    await create({ permissions: ["a", "b"] });
    await create();
    const { pagination } = await keyring.listKeys({ apiId, limit: 1 });
    expect(await problems(keyring.listPermissions({ cursor: pagination.cursor! }))).toEqual(["body.cursor"]);
  });

  it("an unknown API is 404", async () => {
    const { keyring } = await world();
    expect(await fault(keyring.listKeys({ apiId: "api_unknown" }))).toBe("NOT_FOUND 404");
  });
});

describe("cursor: opaque text that is judged", () => {
  it("reads back what it wrote, and nothing that was bent", () => {
    for (const id of ["key_1", "k", "x".repeat(255)]) {
      const cursor = writeCursor("keys", id);
      expect(readCursor("keys", cursor)).toBe(id);
      expect(readCursor("roles", cursor)).toBeUndefined();
      for (let i = 0; i < cursor.length; i += 7) {
        const bent = `${cursor.slice(0, i)}-${cursor.slice(i + 1)}`;
        const read = readCursor("keys", bent);
        if (bent !== cursor && read !== undefined) expect(writeCursor("keys", read)).toBe(bent);
      }
    }
    for (const cursor of ["", "a", "ab", "abcde", "a+b=", "x".repeat(1_025), writeCursor("keys", "bad id")]) {
      expect(readCursor("keys", cursor)).toBeUndefined();
    }
  });
});
