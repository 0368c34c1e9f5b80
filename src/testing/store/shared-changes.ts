/**
 * Changes of one handle are visible to the other after its next `pollChanges`, and notified to its listeners: clauses
 * 8, 15 and 19.
 */
import type { Change, Store } from "../../contracts/store.js";
import { expect } from "../expect.js";
import { api, identity, insert, keyRow, permission, readRow, role, rootKey, WS } from "./rows.js";
import { change, drops, dropsMiss, listen, removeRow, type SharedClause, type SharedStore } from "./shared-steps.js";

/** Both directions: a handle may receive changes and yet not send its own. */
const bothWays = ({ here, there }: SharedStore): readonly SharedStore[] => [
  { here, there },
  { here: there, there: here },
];

/** Changes of what a key refers to, in order, each with what a find then returns. */
const RELATED_CHANGES: readonly (readonly [title: string, act: (store: Store) => Promise<void>, found: object])[] = [
  [
    "a permission is renamed",
    (store) => change(store, "permissions", "perm_a_read", { slug: "a.look" }),
    { permissions: ["a.look"] },
  ],
  ["a role is renamed", (store) => change(store, "roles", "role_r", { name: "s" }), { roles: ["s"] }],
  [
    "a role loses a permission",
    (store) => change(store, "roles", "role_r", { permissions: [] }),
    { permissions: [], roles: ["s"] },
  ],
  [
    "a role gains a permission",
    (store) => change(store, "roles", "role_r", { permissions: ["perm_a_read"] }),
    { permissions: ["a.look"] },
  ],
  ["a permission is removed", (store) => removeRow(store, "permissions", "perm_a_read"), { permissions: [] }],
  ["a role is removed", (store) => removeRow(store, "roles", "role_r"), { roles: [] }],
  [
    "an identity is changed",
    (store) => change(store, "identities", "id_user", { meta: { plan: "pro" } }),
    { identity: { id: "id_user", externalId: "user", meta: { plan: "pro" } } },
  ],
  [
    "an identity is disabled",
    (store) => change(store, "identities", "id_user", { enabled: false }),
    { ownerDisabled: true },
  ],
  ["an identity has an end", (store) => change(store, "identities", "id_user", { expires: 5 }), { ownerExpires: 5 }],
  ["an identity is removed", (store) => removeRow(store, "identities", "id_user"), { identity: undefined }],
  ["an API is disabled", (store) => change(store, "apis", "api_1", { enabled: false }), { parentDisabled: true }],
  ["an API is enabled", (store) => change(store, "apis", "api_1", { enabled: true }), { parentDisabled: false }],
  [
    "an API has an allow-list",
    (store) => change(store, "apis", "api_1", { ipAllowlist: ["10.0.0.0/8"] }),
    { ipAllowlists: [["10.0.0.0/8"]] },
  ],
  ["a workspace is disabled", (store) => change(store, "workspaces", WS, { enabled: false }), { parentDisabled: true }],
];

export function sharedChangesClauses(clause: SharedClause): void {
  clause("clause 8: a new key is found by the other handle after it has polled", async (shared) => {
    for (const [n, { here, there }] of bothWays(shared).entries()) {
      expect(await there.findKey(`digest-${n}`)).toBeUndefined();
      expect(await insert(here, keyRow(n))).toBe(true);
      await there.pollChanges("anew");
      expect((await there.findKey(`digest-${n}`))?.keyId).toBe(keyRow(n).id);
    }
  });

  clause(
    "clause 8: many new keys at once are found by the other handle after it has polled",
    async ({ here, there }) => {
      const rows = Array.from({ length: 2_500 }, (_, n) => keyRow(n));
      for (const n of [0, 999, 1_000, 2_499]) expect(await there.findKey(`digest-${n}`)).toBeUndefined();
      expect((await here.insertKeys(rows.map((row) => ({ row })))).includes(false)).toBe(false);
      await there.pollChanges("anew");
      for (const n of [0, 999, 1_000, 2_499]) {
        expect((await there.findKey(`digest-${n}`))?.keyId).toBe(keyRow(n).id);
      }
    },
  );

  clause(
    "clauses 8 and 15: a changed key is found changed by the other handle, which was notified of it",
    async (shared) => {
      for (const [n, { here, there }] of bothWays(shared).entries()) {
        const [digest, id] = [`digest-${n}`, keyRow(n).id];
        await insert(here, keyRow(n));
        const heard = listen(there);
        await heard();
        expect((await there.findKey(digest))?.enabled).toBe(true);
        await change(here, "keys", id, { enabled: false });
        expect(drops(await heard(), digest), "notified of the change").toBe(true);
        expect((await there.findKey(digest))?.enabled).toBe(false);
        expect((await readRow(there, "keys", id))?.enabled).toBe(false);
        await change(here, "keys", id, { digest: `${digest}-new` });
        const notified = await heard();
        expect(drops(notified, digest), "notified of the old digest").toBe(true);
        expect(dropsMiss(notified, `${digest}-new`), "notified of the new digest").toBe(true);
        expect(await there.findKey(digest)).toBeUndefined();
        expect((await there.findKey(`${digest}-new`))?.keyId).toBe(id);
      }
    },
  );

  clause(
    "clauses 8, 15 and 18: a deleted key is lost to the other handle, which was notified of it",
    async ({ here, there }) => {
      for (const n of [1, 2]) await insert(here, keyRow(n));
      const heard = listen(there);
      await heard();
      for (const n of [1, 2]) expect((await there.findKey(`digest-${n}`))?.keyId).toBe(keyRow(n).id);
      await change(here, "keys", keyRow(1).id, { deleted: true });
      expect(drops(await heard(), "digest-1"), "notified of the deletion").toBe(true);
      expect(await there.findKey("digest-1")).toBeUndefined();
      await removeRow(here, "keys", keyRow(2).id);
      expect(drops(await heard(), "digest-2"), "notified of the removal").toBe(true);
      expect(await there.findKey("digest-2")).toBeUndefined();
      expect(await there.list("keys", { workspaceId: WS, limit: 10 })).toEqual([]);
    },
  );

  clause(
    "clauses 8 and 15: what a key refers to changes for the other handle, which was notified of it",
    async ({ here, there }) => {
      await here.write([
        { table: "permissions", row: permission("a.read") },
        { table: "roles", row: role("r", ["perm_a_read"]) },
        { table: "identities", row: identity("user") },
      ]);
      await insert(here, keyRow(1, { roles: ["role_r"], identityId: "id_user" }));
      const heard = listen(there);
      await heard();
      expect(await there.findKey("digest-1")).toMatchObject({
        permissions: ["a.read"],
        roles: ["r"],
        identity: { externalId: "user" },
        parentDisabled: false,
      });
      for (const [title, act, found] of RELATED_CHANGES) {
        const before = await there.findKey("digest-1");
        await act(here);
        expect(drops(await heard(), "digest-1", before), `notified that ${title}`).toBe(true);
        expect(await there.findKey("digest-1"), title).toMatchObject(found);
      }
    },
  );

  clause(
    "clauses 8, 15 and 18: keys of a deleted API are lost to the other handle, which was notified of it",
    async ({ here, there }) => {
      await insert(here, keyRow(1, { foreignDigest: "f", migrationId: "m" }));
      const heard = listen(there);
      await heard();
      const before = await there.findKey("digest-1");
      expect(before?.apiId).toBe(api().id);
      await change(here, "apis", api().id, { deleted: true });
      expect(drops(await heard(), "digest-1", before), "notified of the deletion").toBe(true);
      expect(await there.findKey("digest-1")).toBeUndefined();
      expect(await there.findForeignKey("m", "f")).toBeUndefined();
    },
  );

  clause(
    "clause 15: a change of an identity, a role or a permission is notified, whether or not a key has it",
    async ({ here, there }) => {
      await here.write([
        { table: "identities", row: identity("user") },
        { table: "roles", row: role("r", []) },
        { table: "permissions", row: permission("a.read") },
      ]);
      const heard = listen(there);
      await heard();
      const rows = [
        ["identities", "id_user"],
        ["roles", "role_r"],
        ["permissions", "perm_a_read"],
      ] as const;
      for (const [table, id] of rows) {
        await removeRow(here, table, id);
        expect(
          (await heard()).some((one) => one !== "created"),
          `notified of ${table}`,
        ).toBe(true);
        expect(await readRow(there, table, id)).toBeUndefined();
      }
    },
  );

  clause(
    "clauses 8 and 15: a digest that one handle adopts is found by the other, which was notified of it",
    async (shared) => {
      for (const [n, { here, there }] of bothWays(shared).entries()) {
        const [hash, native] = [`foreign-${n}`, `native-${n}`];
        const { digest: _, ...pending } = keyRow(n, { foreignDigest: hash, migrationId: "m" });
        await insert(here, pending);
        const heard = listen(there);
        await heard();
        expect((await there.findForeignKey("m", hash))?.unadopted).toBe(true);
        expect(await there.findKey(native)).toBeUndefined();
        expect(await here.adoptDigest((await here.findForeignKey("m", hash))!.ref, native)).toBe(true);
        expect(dropsMiss(await heard(), native), "notified of the digest").toBe(true);
        expect((await there.findKey(native))?.keyId).toBe(pending.id);
        expect((await there.findForeignKey("m", hash))?.unadopted).toBe(false);
      }
    },
  );

  clause("clauses 8, 15 and 19: a root key changes for the other handle, which was notified of it", async (shared) => {
    for (const [n, { here, there }] of bothWays(shared).entries()) {
      const { id, digest } = rootKey(n);
      const heard = listen(there);
      await heard();
      expect(await there.findRootKey(digest)).toBeUndefined();
      expect(await here.write([{ table: "rootKeys", row: rootKey(n) }])).toBe("written");
      expect(dropsMiss(await heard(), digest), "notified of the new root key").toBe(true);
      expect((await there.findRootKey(digest))?.enabled).toBe(true);
      await change(here, "rootKeys", id, { enabled: false });
      expect(drops(await heard(), digest), "notified of the change").toBe(true);
      expect((await there.findRootKey(digest))?.enabled).toBe(false);
      await removeRow(here, "rootKeys", id);
      expect(drops(await heard(), digest), "notified of the removal").toBe(true);
      expect(await there.findRootKey(digest)).toBeUndefined();
    }
  });

  clause(
    "clause 15: a listener that unsubscribed is not notified of the other handle's changes",
    async ({ here, there }) => {
      const notified: Change[] = [];
      const stop = there.subscribe((one) => notified.push(one));
      stop();
      await insert(here, keyRow(1));
      await there.pollChanges("anew");
      expect(notified).toEqual([]);
    },
  );

  clause("clause 11: one handle works on after the other was closed", async ({ here, there }) => {
    await insert(here, keyRow(1));
    await here.close();
    await there.pollChanges("anew");
    expect((await there.findKey("digest-1"))?.keyId).toBe(keyRow(1).id);
    expect(await insert(there, keyRow(2))).toBe(true);
  });
}
