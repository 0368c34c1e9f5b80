/** Finding, reading and closing: clauses 1, 2, 10, 11 and 12. */
import { expect, faultOf } from "../expect.js";
import type { Clause } from "./bed.js";
import { balance, identity, insert, keyRow, readBalance, readRow, refOf, role, rootKey, WS } from "./rows.js";

export function findingClauses(clause: Clause): void {
  clause("clause 1: what is unknown is undefined, or absent from a list", async (store) => {
    expect(await store.findKey("nothing")).toBeUndefined();
    expect(await store.findForeignKey("mig", "nothing")).toBeUndefined();
    expect(await store.findRootKey("nothing")).toBeUndefined();
    expect(await readRow(store, "roles", "role_x")).toBeUndefined();
    expect(await store.readNames("roles", WS, ["x", "y"])).toEqual([]);
    expect(await store.list("keys", { workspaceId: WS, limit: 10 })).toEqual([]);
    expect(await readBalance(store, "key_x", 0, 0)).toBeUndefined();
    await insert(store, keyRow(1));
    const ref = await refOf(store, "digest-1");
    expect(await store.spendCredits(ref, 1, 0, 0)).toBeUndefined();
    expect(await readBalance(store, "key_000001", 4, 0)).toMatchObject({ remaining: null, period: 4, reserved: 0 });
    if (store.powers.leases) await store.returnCredits(ref, { holder: "nobody", spent: 0 });
  });

  clause("clause 2: digests, ids and names match exactly", async (store) => {
    await insert(store, keyRow(1, { digest: "AbC", foreignDigest: "FoR", migrationId: "mig_1" }));
    await store.write([{ table: "roles", row: role("Admin", []) }]);
    await store.write([{ table: "identities", row: identity("é") }]);
    for (const digest of ["abc", "ABC", "AbC ", " AbC", "Ab", "AbC\0"])
      expect(await store.findKey(digest)).toBeUndefined();
    expect((await store.findKey("AbC"))?.keyId).toBe("key_000001");
    expect(await store.findForeignKey("mig_1", "for")).toBeUndefined();
    expect(await store.findForeignKey("MIG_1", "FoR")).toBeUndefined();
    expect((await store.findForeignKey("mig_1", "FoR"))?.keyId).toBe("key_000001");
    expect(await store.readNames("roles", WS, ["admin", "ADMIN"])).toEqual([]);
    expect(await store.readNames("identities", WS, ["e\u0301"])).toEqual([]);
    expect(await store.readNames("identities", WS, ["é"])).toHaveLength(1);
    expect(await readRow(store, "keys", "KEY_000001")).toBeUndefined();
  });

  clause("clauses 1 and 2: a text that an engine may be unable to hold is unknown to every read", async (store) => {
    // What such a text becomes in an engine that replaces or cuts it.
    for (const [n, text] of ["x", "x\ufffd", "\ufffdx", ""].entries()) {
      await insert(store, keyRow(n, { digest: `d${text}`, foreignDigest: `f${text}`, migrationId: "mig_1" }));
      await store.write([{ table: "roles", row: role(`r${text}`, []) }]);
      await store.write([{ table: "rootKeys", row: rootKey(n, { digest: `k${text}`, name: `k${text}` }) }]);
    }
    for (const odd of ["x\0", "\0", "\0x", "x\ud800", "\udc00x", "\ud800", "x\udc00\ud800"]) {
      const about = JSON.stringify(odd);
      expect(await store.findKey(`d${odd}`), about).toBeUndefined();
      expect(await store.findKeys([`d${odd}`, "dx", odd]), about).toMatchObject([
        undefined,
        { keyId: "key_000000" },
        undefined,
      ]);
      expect(await store.findForeignKey("mig_1", `f${odd}`), about).toBeUndefined();
      expect(await store.findForeignKey(`mig_1${odd}`, "fx"), about).toBeUndefined();
      expect(await store.findRootKey(`k${odd}`), about).toBeUndefined();
      for (const table of ["keys", "apis", "roles", "identities", "permissions", "rootKeys"] as const)
        expect(await store.readMany(table, [odd, `key_000000${odd}`, `api_1${odd}`, `role_r${odd}`]), about).toEqual(
          new Array(4).fill(undefined),
        );
      expect(await store.readNames("roles", WS, [`r${odd}`, "rx"]), about).toMatchObject([{ name: "rx" }]);
      expect(await store.readNames("roles", `${WS}${odd}`, ["rx"]), about).toEqual([]);
      expect(await store.list("keys", { workspaceId: `${WS}${odd}`, limit: 5 }), about).toEqual([]);
      expect(await readBalance(store, `key_000000${odd}`, 0, 0), about).toBeUndefined();
      if (store.powers.idempotency) expect(await store.findOnce(odd, 0), about).toBeUndefined();
    }
  });

  clause("clause 10: a returned object cannot change the store, nor can one that was given", async (store) => {
    const given = keyRow(1, { meta: { deep: { list: [1] } }, permissions: [], hasCredits: true });
    await insert(store, given, balance(3));
    (given.meta as { deep: { list: number[] } }).deep.list.push(2);
    const spoil = (value: unknown): void => {
      if (typeof value !== "object" || value === null) return;
      for (const inner of Object.values(value)) spoil(inner);
      try {
        Object.assign(value, { enabled: "spoiled", 0: "spoiled" });
      } catch {
        // a frozen row is fine too
      }
    };
    spoil(await store.findKey("digest-1"));
    spoil(await readRow(store, "keys", given.id));
    spoil(await store.list("keys", { workspaceId: WS, limit: 5 }));
    const kept = { enabled: true, meta: { deep: { list: [1] } }, permissions: [] };
    expect(await store.findKey("digest-1")).toMatchObject(kept);
    expect(await readRow(store, "keys", given.id)).toMatchObject(kept);
  });

  clause("clause 11: after close every call fails with STORE_CLOSED, and close again does nothing", async (store) => {
    await store.close();
    await store.close();
    const calls: (() => unknown)[] = [
      () => store.findKey("d"),
      () => store.findKeys(["d"]),
      () => store.findForeignKey("m", "d"),
      () => store.findRootKey("d"),
      () => store.adoptDigest("k", "d"),
      () => store.spendCredits("k", 1, 0, 0),
      () => store.spendCredits("k", 0, 0, 0),

      () => readBalance(store, "k", 0, 0),
      () => readRow(store, "apis", "a"),
      () => store.readNames("roles", WS, ["r"]),
      () => store.list("keys", { workspaceId: WS, limit: 1 }),
      () => store.insertKeys([]),
      () => store.write([]),
      () => store.subscribe(() => undefined),
      () => store.pollChanges(),
    ];
    if (store.powers.leases) calls.push(() => store.returnCredits("k", { holder: "h", spent: 0 }));
    for (const call of calls) {
      expect(await faultOf(call), String(call)).toMatchObject({ code: "STORE_CLOSED" });
    }
  });

  clause("clause 12: two new stores share nothing", async (one, open) => {
    const two = await open();
    await insert(one, keyRow(1));
    expect(await two.findKey("digest-1")).toBeUndefined();
    expect(await insert(two, keyRow(1))).toBe(true);
  });

  clause("clause 2: many names at once are looked up as one by one", async (store) => {
    const names = [...Array.from(`aAé"\\%_1🔑`), "日本", "e\u0301", "'; DROP TABLE x;--", "a b", "null"];
    const rows = names.map((name, i) => role(name, [`perm_${i}`], { id: `role_${i}`, description: name }));
    for (const row of rows) expect(await store.write([{ table: "roles", row }])).toBe("written");
    await store.write([{ table: "roles", row: role("b", [], { id: "role_other", workspaceId: "ws_2" }) }]);
    const asked = [...names, "b", "unknown", "É", ...names, ""];
    const found = await store.readNames("roles", WS, asked);
    expect([...found].sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name))).toEqual(
      rows.map((row) => ({ ...row, version: 1 })),
    );
    for (const name of names) expect(await store.readNames("roles", WS, [name])).toMatchObject([{ name }]);
  });

  clause("clause 2: text that looks like SQL is only text", async (store) => {
    const nasty = ["'; DROP TABLE keystile_keys;--", '"', "\\\\", "$1", "?", "%s", "@x", ":x"];
    for (const [i, text] of nasty.entries()) {
      expect(await store.write([{ table: "identities", row: identity(text, { id: `id_${i}` }) }])).toBe("written");
      expect(await insert(store, keyRow(i, { name: text, digest: text, meta: { [text]: text } }))).toBe(true);
      expect(await store.findKey(text)).toMatchObject({ name: text, meta: { [text]: text } });
      expect(await store.readNames("identities", WS, [text])).toMatchObject([{ externalId: text }]);
    }
  });
}
