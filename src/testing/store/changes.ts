/** Changes are visible and notified: clauses 8 and 15. */
import type { Change, Rows, Store, Table } from "../../contracts/store.js";
import { expect } from "../expect.js";
import type { Clause } from "./bed.js";
import { api, balance, identity, insert, keyRow, permission, readRow, refOf, related, rootKey, WS } from "./rows.js";
import { followsRelatedRows, notifiesWithoutKeys } from "./shared-changes.js";
import { alone, change, drops, dropsMiss, removeRow } from "./shared-steps.js";
import { adoptsOnce } from "./shared-writing.js";

const finding = (digest: string) => (store: Store) => store.findKey(digest);
const findOne = finding("digest-1");
const findRoot = (store: Store) => store.findRootKey("root-digest-1");
const changing =
  <T extends Table>(table: T, id: string, over: Partial<Rows[T]>) =>
  (store: Store) =>
    change(store, table, id, over);
const adopt = async (store: Store) => store.adoptDigest((await store.findForeignKey("m", "f"))!.ref, "adopted");

/** Changes in order, each with a read that sees it and what it then returns. */
const SEEN: readonly (readonly [
  title: string,
  act: (store: Store) => unknown,
  read: (store: Store) => unknown,
  seen: unknown,
])[] = [
  ["a key is changed", changing("keys", keyRow(1).id, { enabled: false }), findOne, { enabled: false }],
  ["its identity is changed", changing("identities", "id_user", { enabled: false }), findOne, { ownerDisabled: true }],
  [
    "a role is renamed",
    changing("roles", "role_r", { name: "s" }),
    (store) => store.readNames("roles", WS, ["r", "s"]),
    [{ name: "s" }],
  ],
  ["a key is deleted", changing("keys", keyRow(1).id, { deleted: true }), findOne, undefined],
  ["a digest is adopted", adopt, finding("adopted"), { unadopted: false }],
  ["a root key is new", (store) => store.write([{ table: "rootKeys", row: rootKey(1) }]), findRoot, { enabled: true }],
  ["a root key is removed", (store) => removeRow(store, "rootKeys", "root_1"), findRoot, undefined],
  ["a key is new", (store) => insert(store, keyRow(3)), finding("digest-3"), { enabled: true }],
  ["an API is deleted", changing("apis", api().id, { deleted: true }), finding("digest-3"), undefined],
];

export function changesClauses(clause: Clause): void {
  clause("clause 8: a change is seen by the next find", async (store) => {
    await insert(store, keyRow(1));
    expect((await store.findKey("digest-1"))?.enabled).toBe(true);
    await change(store, "keys", keyRow(1).id, { enabled: false });
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
    await store.write(related());
    await insert(store, keyRow(1, { roles: ["role_r"], identityId: "id_user" }));
    const found = await store.findKey("digest-1");
    expect(found).toMatchObject({ roles: ["r"], permissions: ["a.read"], identity: { externalId: "user" } });
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
    alone(notifiesWithoutKeys),
  );

  clause("clause 15: every change that a find could see is notified", async (store) => {
    const notified: Change[] = [];
    const stop = store.subscribe((change) => notified.push(change));
    const since = () => notified.splice(0);
    await insert(store, keyRow(1, { hasCredits: true }), balance(5));
    expect(dropsMiss(since(), "digest-1"), "a new key").toBe(true);
    await store.spendCredits(await refOf(store, "digest-1"), 1, 0, 0);
    expect(since()).toEqual([]);
    await change(store, "keys", keyRow(1).id, { enabled: false });
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
    alone(followsRelatedRows),
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
      const told = notified.map((changes) => drops(changes, "digest-1"));
      expect(told, `after that of ${leaves}`).toEqual(left);
      for (const [n, changes] of notified.entries()) if (!left[n]) expect(changes.splice(0)).toEqual([]);
      for (const changes of notified) changes.length = 0;
    }
  });

  clause("clauses 8 and 15: what a subscriber reads once it is notified of a change is changed", async (store) => {
    await store.write(related());
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

  clause("clause 8: a pending key gains its native digest once", alone(adoptsOnce));
}
