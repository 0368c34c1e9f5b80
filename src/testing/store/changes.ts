/** Changes are visible and notified: clauses 8 and 15. */
import type { Change, RowChange, Store, Write } from "../../contracts/store.js";
import { expect } from "../expect.js";
import type { Clause } from "./bed.js";
import { api, balance, identity, insert, keyRow, permission, readRow, refOf, role, rootKey, WS } from "./rows.js";
import { change, drops, dropsMiss, removeRow } from "./shared-steps.js";

/** Changes of rows that keys refer to, of each table that finds depend on. */
const OF_KEYS: Readonly<Record<RowChange["table"], readonly (readonly [id: string, over: object])[]>> = {
  workspaces: [[WS, { enabled: false }]],
  apis: [["api_1", { enabled: false }]],
  identities: [["id_user", { meta: { plan: "pro" } }]],
  permissions: [
    ["perm_through", { slug: "renamed" }],
    ["perm_direct", { slug: "renamed.too" }],
  ],
  roles: [
    ["role_r", { permissions: [] }],
    // Back in a role that had lost it.
    ["role_r", { permissions: ["perm_through"] }],
  ],
};

/** Changes in order, each with a read that sees it and what it then returns. */
const SEEN: readonly (readonly [
  title: string,
  act: (store: Store) => unknown,
  read: (store: Store) => unknown,
  seen: unknown,
])[] = [
  [
    "a key is changed",
    (store) => change(store, "keys", keyRow(1).id, { enabled: false }),
    (store) => store.findKey("digest-1"),
    { enabled: false },
  ],
  [
    "its identity is changed",
    (store) => change(store, "identities", "id_user", { meta: { plan: "pro" } }),
    (store) => store.findKey("digest-1"),
    { identity: { meta: { plan: "pro" } } },
  ],
  [
    "a role is renamed",
    (store) => change(store, "roles", "role_r", { name: "s" }),
    (store) => store.readNames("roles", WS, ["r", "s"]),
    [{ name: "s" }],
  ],
  [
    "a key is deleted",
    (store) => change(store, "keys", keyRow(1).id, { deleted: true }),
    (store) => store.findKey("digest-1"),
    undefined,
  ],
  [
    "a digest is adopted",
    async (store) => store.adoptDigest((await store.findForeignKey("m", "f"))!.ref, "adopted"),
    (store) => store.findKey("adopted"),
    { unadopted: false },
  ],
  [
    "a root key is new",
    (store) => store.write([{ table: "rootKeys", row: rootKey(1) }]),
    (store) => store.findRootKey("root-digest-1"),
    { enabled: true },
  ],
  [
    "a root key is removed",
    (store) => removeRow(store, "rootKeys", "root_1"),
    (store) => store.findRootKey("root-digest-1"),
    undefined,
  ],
  ["a key is new", (store) => insert(store, keyRow(3)), (store) => store.findKey("digest-3"), { enabled: true }],
  [
    "an API is deleted",
    (store) => change(store, "apis", api().id, { deleted: true }),
    (store) => store.findKey("digest-3"),
    undefined,
  ],
];

export function changesClauses(clause: Clause): void {
  clause("clause 8: a change is seen by the next find", async (store) => {
    await insert(store, keyRow(1));
    expect((await store.findKey("digest-1"))?.enabled).toBe(true);
    const row = (await readRow(store, "keys", "key_000001"))!;
    await store.write([{ table: "keys", row: { ...row, enabled: false } }]);
    expect((await store.findKey("digest-1"))?.enabled).toBe(false);
    const docs = (await readRow(store, "apis", "api_1"))!;
    await store.write([{ table: "apis", row: { ...docs, enabled: false, ipAllowlist: ["10.0.0.0/8"] } }]);
    expect(await store.findKey("digest-1")).toMatchObject({ parentDisabled: true, ipAllowlists: [["10.0.0.0/8"]] });
    await store.write([
      { table: "apis", row: { ...docs, version: docs.version + 1 } },
      { table: "workspaces", row: { id: WS, version: 0, enabled: false } },
    ]);
    expect(await store.findKey("digest-1")).toMatchObject({ parentDisabled: true, ipAllowlists: [] });
  });

  clause("clause 8: roles, permissions and identities reach the keys that refer to them", async (store) => {
    await store.write([
      { table: "permissions", row: permission("a.read") },
      { table: "roles", row: role("r", ["perm_a_read"]) },
      { table: "identities", row: identity("user") },
    ]);
    await insert(store, keyRow(1, { roles: ["role_r"], identityId: "id_user" }));
    expect(await store.findKey("digest-1")).toMatchObject({
      roles: ["r"],
      permissions: ["a.read"],
      identity: { externalId: "user" },
    });
    await store.write([{ table: "identities", row: identity("user", { version: 1, meta: { now: "new" } }) }]);
    expect((await store.findKey("digest-1"))?.identity?.meta).toEqual({ now: "new" });
    await store.write([{ table: "permissions", remove: "perm_a_read", version: 1 }]);
    expect((await store.findKey("digest-1"))?.permissions).toEqual([]);
    await store.write([{ table: "permissions", row: permission("a.read", { id: "perm_2" }) }]);
    expect((await store.findKey("digest-1"))?.permissions).toEqual([]);
    await store.write([{ table: "roles", remove: "role_r", version: 1 }]);
    await store.write([{ table: "identities", remove: "id_user", version: 2 }]);
    const after = await store.findKey("digest-1");
    expect(after?.roles).toEqual([]);
    expect(after && "identity" in after).toBe(false);
  });

  clause(
    "clause 15: a change of an identity, a role or a permission is notified, whether or not a key has it",
    async (store) => {
      const rows = [
        { table: "identities", row: identity("user") },
        { table: "roles", row: role("admin", []) },
        { table: "permissions", row: permission("read") },
      ] as const;
      await store.write([...rows]);
      const notified: Change[] = [];
      store.subscribe((change) => notified.push(change));
      for (const { table, row } of rows) {
        const { version } = (await readRow(store, table, row.id))!;
        expect(await store.write([{ table, remove: row.id, version } as Write])).toBe("written");
        expect(
          notified.splice(0).some((change) => change !== "created"),
          table,
        ).toBe(true);
      }
    },
  );

  clause("clause 15: every change that a find could see is notified", async (store) => {
    const notified: Change[] = [];
    const stop = store.subscribe((change) => notified.push(change));
    const since = () => notified.splice(0);
    await insert(store, keyRow(1, { hasCredits: true }), balance(5));
    expect(dropsMiss(since(), "digest-1"), "a new key").toBe(true);
    await store.spendCredits(await refOf(store, "digest-1"), 1, 0, 0);
    expect(since()).toEqual([]);
    const row = (await readRow(store, "keys", "key_000001"))!;
    await store.write([{ table: "keys", row: { ...row, enabled: false } }]);
    expect(drops(since(), "digest-1"), "a changed key").toBe(true);
    const docs = (await readRow(store, "apis", "api_1"))!;
    const found = await store.findKey("digest-1");
    await store.write([{ table: "apis", row: { ...docs, enabled: false } }]);
    expect(drops(since(), "digest-1", found)).toBe(true);
    expect(await store.write([{ table: "apis", row: docs }])).toBe("conflict");
    expect(since()).toEqual([]);
    await insert(store, keyRow(2, { digest: undefined as never, foreignDigest: "f", migrationId: "m" }));
    since();
    const pending = (await store.findForeignKey("m", "f"))!;
    await store.adoptDigest(pending.ref, "adopted");
    expect(dropsMiss(since(), "adopted"), "an adopted digest").toBe(true);
    stop();
    await insert(store, keyRow(3));
    expect(since()).toEqual([]);
  });

  clause(
    "clause 15: a row that keys refer to drops those keys, told by its id, by their digests or as all",
    async (store) => {
      await store.write([
        { table: "workspaces", row: { id: WS, version: 0, enabled: true } },
        { table: "permissions", row: permission("direct") },
        { table: "permissions", row: permission("through") },
        { table: "roles", row: role("r", ["perm_through"]) },
        { table: "identities", row: identity("user") },
      ]);
      const of = { permissions: ["perm_direct"], roles: ["role_r"], identityId: "id_user" };
      await insert(store, keyRow(1, of));
      const notified: Change[] = [];
      store.subscribe((change) => notified.push(change));
      const rows = (Object.keys(OF_KEYS) as RowChange["table"][]).flatMap((table) =>
        OF_KEYS[table].map(([id, over]) => [table, id, over] as const),
      );
      for (const [table, id, over] of rows) {
        const before = (await store.findKey("digest-1"))!;
        await change(store, table, id, over);
        expect(drops(notified.splice(0), "digest-1", before), `${table} ${id}`).toBe(true);
      }
      for (const [table, id] of [
        ["permissions", "perm_through"],
        ["identities", "id_user"],
        ["roles", "role_r"],
      ] as const) {
        const before = (await store.findKey("digest-1"))!;
        await removeRow(store, table, id);
        expect(drops(notified.splice(0), "digest-1", before), `${table} ${id} removed`).toBe(true);
      }
    },
  );

  clause("clause 15: every subscriber is notified, and one that unsubscribes leaves the others", async (store) => {
    const notified: Change[][] = [[], [], []];
    const stops = notified.map((changes) => store.subscribe((change) => changes.push(change)));
    await insert(store, keyRow(1));
    expect(notified.map((changes) => dropsMiss(changes.splice(0), "digest-1"))).toEqual([true, true, true]);
    let enabled = true;
    for (const [leaves, left] of [
      [2, [true, true, false]],
      [0, [false, true, false]],
    ] as const) {
      stops[leaves]!();
      enabled = !enabled;
      await change(store, "keys", keyRow(1).id, { enabled });
      expect(
        notified.map((changes) => drops(changes, "digest-1")),
        `after that of ${leaves}`,
      ).toEqual(left);
      for (const [n, changes] of notified.entries()) if (!left[n]) expect(changes.splice(0)).toEqual([]);
      for (const changes of notified) changes.length = 0;
    }
  });

  clause("clauses 8 and 15: what a subscriber reads once it is notified of a change is changed", async (store) => {
    await store.write([
      { table: "roles", row: role("r", []) },
      { table: "identities", row: identity("user") },
    ]);
    await insert(store, keyRow(1, { identityId: "id_user" }));
    const { digest: _, ...pending } = keyRow(2, { foreignDigest: "f", migrationId: "m" });
    await insert(store, pending);
    for (const [title, act, read, seen] of SEEN) {
      // The last notification counts: a store may tell of a change more often than it must.
      let last: Promise<unknown> = Promise.resolve("not notified");
      const stop = store.subscribe(() => {
        last = (async () => read(store))();
      });
      await act(store);
      stop();
      if (seen === undefined) expect(await last, title).toBeUndefined();
      else expect(await last, title).toMatchObject(seen);
    }
  });

  clause("clause 8: a pending key gains its native digest once", async (store) => {
    const { digest: _, ...rest } = keyRow(1, { foreignDigest: "f", migrationId: "m" });
    await insert(store, rest);
    const found = (await store.findForeignKey("m", "f"))!;
    expect(found.unadopted).toBe(true);
    const digests = ["one", "two", "three"];
    const adopted = await Promise.all(digests.map((digest) => store.adoptDigest(found.ref, digest)));
    expect([...adopted].sort()).toEqual([false, false, true]);
    for (const [i, digest] of digests.entries())
      expect((await store.findKey(digest))?.unadopted, digest).toBe(adopted[i] === true ? false : undefined);
    const native = digests[adopted.indexOf(true)]!;
    expect((await store.findForeignKey("m", "f"))?.unadopted).toBe(false);
    const { digest: __, ...other } = keyRow(2, { foreignDigest: "g", migrationId: "m" });
    await insert(store, other);
    expect(await store.adoptDigest((await store.findForeignKey("m", "g"))!.ref, native)).toBe(false);
  });
}
