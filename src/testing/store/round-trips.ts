/** Rows are read as they were written: clause 3. */
import { type FieldsThat, fieldsThat, KEY_FIELDS, type KeyField } from "../../contracts/key-fields.js";
import type { KeyRow } from "../../contracts/store.js";
import { expect } from "../expect.js";
import { withSeeds } from "../random.js";
import type { Clause } from "./bed.js";
import {
  api,
  balance,
  identity,
  insert,
  keyRow,
  NOW,
  override,
  permission,
  readBalance,
  readRow,
  role,
  rootKey,
  WS,
} from "./rows.js";
import { type FullRow, fullRow, NEEDED, NOT_WRITTEN, randomMeta, randomText, RELATED } from "./samples.js";

export function roundTripsClauses(clause: Clause): void {
  clause("clause 3: any row survives a round trip", async (store) => {
    let n = 0;
    const balances = [0, 1, 10 ** 12, Number.MAX_SAFE_INTEGER] as const;
    await withSeeds(60, async (random) => {
      const data = randomMeta(random);
      const name = randomText(random);
      const expires = random.pick([undefined, 0, random.integer(0, 8.64e15), 8.64e15]);
      const remaining = random.pick(balances);
      const row = keyRow(++n, { meta: data, name, ...(expires !== undefined && { expires }), hasCredits: true });
      expect(await insert(store, row, balance(remaining))).toBe(true);
      expect(await readRow(store, "keys", row.id)).toEqual({ ...row, version: 1 });
      const found = await store.findKey(row.digest!);
      expect(JSON.stringify(found?.meta)).toBe(JSON.stringify(data));
      const usual = { enabled: true, permissions: [], roles: [], hasCredits: true, unadopted: false };
      expect(found).toMatchObject({ ...usual, keyId: row.id, name });
      expect("expires" in found!).toBe(expires !== undefined);
      expect("identity" in found!).toBe(false);
      expect((await readBalance(store, row.id, 0, 0))?.remaining).toBe(remaining);
    });
    const refilled = keyRow(++n, {
      hasCredits: true,
      refill: { interval: "monthly", amount: 5, refillDay: 31 },
      refillCursor: NOW,
      identityId: "id_日本",
      ipAllowlist: ["::1"],
      updatedAt: 0,
      hash: "as given",
      migrationId: "mig_1",
      foreignDigest: "compared",
      generation: 3,
      deleted: true,
    });
    expect(await store.write([{ table: "identities", row: identity("日本") }])).toBe("written");
    expect(await insert(store, refilled, balance(1))).toBe(true);
    expect(await readRow(store, "keys", refilled.id)).toEqual({ ...refilled, version: 1 });
    const others = [
      { table: "identities", row: identity("日本人", { meta: { a: [] }, ratelimits: [] }) },
      { table: "roles", row: role("r", ["perm_x"], { description: "" }) },
      { table: "permissions", row: permission("a.*", { description: "ü" }) },
      { table: "migrations", row: { id: "mig_1", workspaceId: WS, version: 0, algorithm: "sha256" } },
      { table: "workspaces", row: { id: WS, version: 0, enabled: true } },
      {
        table: "rootKeys",
        row: rootKey(1, { name: "ü", permissions: ["a.*", "ßvc:v1:ws:**#*"], expires: 0, enabled: false }),
      },
      { table: "namespaces", row: { id: "ns_1", workspaceId: WS, version: 0, name: "mails out", createdAt: 0 } },
      { table: "overrides", row: override("ns_1", "a b  c@日本", { limit: 0, duration: Number.MAX_SAFE_INTEGER }) },
    ] as const;
    expect(await store.write(others)).toBe("written");
    for (const { table, row } of others) expect(await readRow(store, table, row.id)).toEqual({ ...row, version: 1 });
  });

  clause("clause 3: U+0000 inside meta, and the order of its names, survive a round trip", async (store) => {
    const meta = { b: "\0", "a\0": ["\0\0", { "\0": null }], "\u0001": "\u001f", aa: 1, a: { z: 1, y: 2 } };
    const text = JSON.stringify(meta);
    const row = keyRow(1, { meta, identityId: "id_user" });
    await store.write([{ table: "identities", row: identity("user", { meta }) }]);
    expect(await insert(store, row)).toBe(true);
    const found = await store.findKey(row.digest!);
    const stored = [await readRow(store, "keys", row.id), await readRow(store, "identities", "id_user")];
    for (const one of [found, found?.identity, ...stored]) expect(JSON.stringify(one?.meta)).toBe(text);
    const [listed] = await store.list("keys", { workspaceId: WS, limit: 1 });
    expect(JSON.stringify(listed?.meta)).toBe(text);
  });

  clause(
    "clause 3: every field of a key survives a round trip, each also by itself, and each also taken away",
    async (store) => {
      await store.write(RELATED);
      const usual = keyRow(0);
      const rows = [fullRow(0), { ...fullRow(1), deleted: true }];
      for (const [name, { row, absent }] of Object.entries<KeyField>(KEY_FIELDS)) {
        if (row === undefined || NEEDED.includes(name) || NOT_WRITTEN.includes(name)) continue;
        const full = fullRow(rows.length);
        const alone = { ...keyRow(rows.length), ...(name === "identityId" && { identityId: "id_user" }) };
        const { [name as "name"]: _, ...without } = full;
        rows.push((absent === true ? without : { ...full, [name]: usual[name as keyof KeyRow] }) as FullRow);
        rows.push({ ...alone, [name]: full[name as keyof FullRow] } as FullRow);
      }
      // Written one by one and in a batch, new and again.
      const half = rows.length >> 1;
      for (const row of rows.slice(0, half)) expect(await store.write([{ table: "keys", row }])).toBe("written");
      expect((await store.insertKeys(rows.slice(half).map((row) => ({ row })))).includes(false)).toBe(false);
      for (const row of rows) expect(await readRow(store, "keys", row.id)).toStrictEqual({ ...row, version: 1 });
      for (const row of rows)
        expect(await store.write([{ table: "keys", row: { ...row, version: 1 } }])).toBe("written");
      for (const row of rows) expect(await readRow(store, "keys", row.id)).toStrictEqual({ ...row, version: 2 });
      const listed = await store.list("keys", { workspaceId: WS, limit: rows.length });
      expect(listed.find(({ id }) => id === rows[0]!.id)).toStrictEqual({ ...rows[0], version: 2 });
    },
  );

  clause("clause 3: every field of a record is the row's, or what it refers to", async (store) => {
    await store.write([...RELATED, { table: "apis", row: api({ version: 1, ipAllowlist: ["10.0.0.0/8"] }) }]);
    const row = { ...fullRow(1), start: "..." };
    await insert(store, row);
    const found = (await store.findKey(row.digest))!;
    const made = {
      hasCredits: true,
      creditsFrom: undefined,
      refill: { ...row.refill, calendar: row.refillCalendar },
      generation: row.generation,
      ref: found.ref,
      account: { ref: found.account!.ref, id: row.accountId },
      wallets: undefined,
      keyId: row.id,
      permissions: ["a.read", "b.read"],
      roles: ["r"],
      identity: { id: "id_user", externalId: "user", meta: { plan: "pro" } },
      ownerDisabled: true,
      ownerExpires: 8.64e15,
      parentDisabled: false,
      unadopted: false,
      startUnknown: true,
      grantIds: found.grantIds,
      ipAllowlists: [row.ipAllowlist, ["10.0.0.0/8"]],
    } satisfies Record<FieldsThat<{ from: "made" }>, unknown>;
    const copied = Object.fromEntries(fieldsThat({ from: "row" }).map((name) => [name, row[name]]));
    const whole = { ...made, ...copied };
    // Its credits are its own.
    for (const name of ["creditsFrom", "wallets"]) Reflect.deleteProperty(whole, name);
    // A store that tells a changed role as `all` needs none.
    if (found.grantIds === undefined) delete (whole as { grantIds?: unknown }).grantIds;
    expect(found).toStrictEqual(whole);
    expect(await store.findForeignKey(row.migrationId, row.foreignDigest)).toStrictEqual(whole);
  });

  clause("clause 3: a record has roles and permissions flattened, identity and limits beside them", async (store) => {
    const limit = { id: "rl_00000001", name: "requests", limit: 5, duration: 1000, autoApply: true };
    await store.write([
      { table: "permissions", row: permission("b.read") },
      { table: "permissions", row: permission("a.read") },
      { table: "roles", row: role("z", ["perm_a_read", "perm_b_read", "perm_gone"]) },
      { table: "roles", row: role("y", []) },
      { table: "identities", row: identity("user", { meta: { plan: "pro" }, ratelimits: [limit] }) },
    ]);
    const roles = ["role_z", "role_y", "role_gone"];
    await insert(store, keyRow(1, { permissions: ["perm_b_read"], roles, identityId: "id_user", ratelimits: [limit] }));
    expect(await store.findKey("digest-1")).toMatchObject({
      permissions: ["a.read", "b.read"],
      roles: ["y", "z"],
      identity: { id: "id_user", externalId: "user", meta: { plan: "pro" }, ratelimits: [limit] },
      ratelimits: [limit],
      parentDisabled: false,
      ipAllowlists: [],
    });
    expect((await readRow(store, "keys", "key_000001"))?.identityId).toBe("id_user");
  });
}
