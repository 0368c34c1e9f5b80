/**
 * Changes of one handle are visible to the other after its next `pollChanges`, and notified to its listeners: clauses
 * 8, 15 and 19.
 */
import type { Change, RowChange } from "../../contracts/store.js";
import { expect } from "../expect.js";
import { api, identity, insert, keyRow, permission, readRow, related, role, rootKey, WS } from "./rows.js";
import { change, drops, dropsMiss, listen, removeRow, type SharedClause, type SharedStore } from "./shared-steps.js";

/** Both directions: a handle may receive changes and yet not send its own. */
const bothWays = ({ here, there }: SharedStore): readonly SharedStore[] => [
  { here, there },
  { here: there, there: here },
];

/** Changes of rows that a key refers to, in order, each with what a find then returns; undefined: the row goes. */
const RELATED_CHANGES: Readonly<
  Record<RowChange["table"], readonly (readonly [id: string, over: object | undefined, found: object])[]>
> = {
  permissions: [
    ["perm_a_read", { slug: "a.look" }, { permissions: ["a.look", "b.read", "c.read"] }],
    ["perm_c_read", { slug: "c.look" }, { permissions: ["a.look", "b.read", "c.look"] }],
    ["perm_b_read", undefined, { permissions: ["a.look", "c.look"] }],
  ],
  roles: [
    ["role_r", { name: "s" }, { roles: ["s"] }],
    ["role_r", { permissions: [] }, { permissions: ["c.look"], roles: ["s"] }],
    // Back in a role that had lost it.
    ["role_r", { permissions: ["perm_a_read"] }, { permissions: ["a.look", "c.look"] }],
    ["role_r", undefined, { permissions: ["c.look"], roles: [] }],
  ],
  identities: [
    ["id_user", { meta: { plan: "pro" } }, { identity: { id: "id_user", externalId: "user", meta: { plan: "pro" } } }],
    ["id_user", { enabled: false }, { ownerDisabled: true }],
    ["id_user", { expires: 5 }, { ownerExpires: 5 }],
    ["id_user", undefined, { identity: undefined }],
  ],
  apis: [
    ["api_1", { enabled: false }, { parentDisabled: true }],
    ["api_1", { enabled: true }, { parentDisabled: false }],
    ["api_1", { ipAllowlist: ["10.0.0.0/8"] }, { ipAllowlists: [["10.0.0.0/8"]] }],
  ],
  // The first makes the row.
  workspaces: [
    [WS, { enabled: false }, { parentDisabled: true }],
    [WS, { enabled: true }, { parentDisabled: false }],
  ],
};

/** A find follows the rows that its key refers to, and whoever listens is notified of each change. */
export async function followsRelatedRows({ here, there }: SharedStore): Promise<void> {
  await here.write([
    ...["a.read", "b.read", "c.read"].map((slug) => ({ table: "permissions", row: permission(slug) }) as const),
    { table: "roles", row: role("r", ["perm_a_read", "perm_b_read"]) },
    { table: "identities", row: identity("user") },
  ]);
  await insert(here, keyRow(1, { permissions: ["perm_c_read"], roles: ["role_r"], identityId: "id_user" }));
  const heard = listen(there, here !== there);
  await heard();
  const first = { permissions: ["a.read", "b.read", "c.read"], roles: ["r"], parentDisabled: false };
  expect(await there.findKey("digest-1")).toMatchObject({ ...first, identity: { externalId: "user" } });
  for (const table of Object.keys(RELATED_CHANGES) as RowChange["table"][])
    for (const [id, over, found] of RELATED_CHANGES[table]) {
      const about = `${table} ${id} ${JSON.stringify(over)}`;
      const before = await there.findKey("digest-1");
      await (over === undefined ? removeRow(here, table, id) : change(here, table, id, over));
      expect(drops(await heard(), "digest-1", before), `notified of ${about}`).toBe(true);
      expect(await there.findKey("digest-1"), about).toMatchObject(found);
    }
}

/** The removal of a row to which no key refers is notified too. */
export async function notifiesWithoutKeys({ here, there }: SharedStore): Promise<void> {
  await here.write(related());
  const heard = listen(there, here !== there);
  await heard();
  const rows = [
    ["identities", "id_user"],
    ["roles", "role_r"],
    ["permissions", "perm_a_read"],
  ] as const;
  for (const [table, id] of rows) {
    await removeRow(here, table, id);
    const isNotified = (await heard()).some((one) => one !== "created");
    expect(isNotified, `notified of ${table}`).toBe(true);
    expect(await readRow(there, table, id)).toBeUndefined();
  }
}

/** A root key that is made, changed and removed is found so, and each change is notified. @returns what was since */
export async function followsRootKey({ here, there }: SharedStore, n: number): Promise<ReturnType<typeof listen>> {
  const { id, digest } = rootKey(n);
  const next = `${digest}-new`;
  const heard = listen(there, here !== there);
  await heard();
  expect(await there.findRootKey(digest)).toBeUndefined();
  expect(await here.write([{ table: "rootKeys", row: rootKey(n) }])).toBe("written");
  expect(dropsMiss(await heard(), digest), "notified of the new root key").toBe(true);
  expect((await there.findRootKey(digest))?.enabled).toBe(true);
  await change(here, "rootKeys", id, { enabled: false });
  expect(drops(await heard(), digest), "notified of the change").toBe(true);
  expect((await there.findRootKey(digest))?.enabled).toBe(false);
  await change(here, "rootKeys", id, { digest: next });
  const changes = await heard();
  expect(drops(changes, digest), "notified of the old digest").toBe(true);
  expect(dropsMiss(changes, next), "notified of the new digest").toBe(true);
  await removeRow(here, "rootKeys", id);
  expect(drops(await heard(), next), "notified of the removal").toBe(true);
  expect(await there.findRootKey(next)).toBeUndefined();
  return heard;
}

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
      for (const n of [0, 999, 1_000, 2_499]) expect((await there.findKey(`digest-${n}`))?.keyId).toBe(keyRow(n).id);
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
    followsRelatedRows,
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
    notifiesWithoutKeys,
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
    for (const [n, way] of bothWays(shared).entries()) await followsRootKey(way, n);
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
