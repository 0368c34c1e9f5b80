/** Root keys: clause 19. */
import type { Write } from "../../contracts/store.js";
import { expect } from "../expect.js";
import type { Clause } from "./bed.js";
import { insert, keyRow, NOW, override, rootKey, WS } from "./rows.js";
import { followsRootKey } from "./shared-changes.js";

const namespace = { id: "ns_1", workspaceId: WS, version: 0, name: "mails", createdAt: NOW };
const migration = { id: "mig_1", workspaceId: WS, version: 0, algorithm: "sha256" };
/** Writes, in order, of rows that no find returns. */
export const UNSEEN: readonly Write[] = [
  { table: "namespaces", row: namespace },
  { table: "namespaces", row: { ...namespace, version: 1, name: "letters" } },
  { table: "overrides", row: override("ns_1", "a") },
  { table: "overrides", row: override("ns_1", "a", { version: 1, limit: 9 }) },
  { table: "migrations", row: migration },
  { table: "migrations", row: { ...migration, version: 1, algorithm: "sha512" } },
];

export function rootKeysClauses(clause: Clause): void {
  clause("clause 19: a root key is found by its digest in any workspace, as it stands", async (store) => {
    await insert(store, keyRow(1));
    const row = rootKey(1, { workspaceId: "ws_2", permissions: ["api.*.verify_key"], expires: 1, enabled: false });
    expect(await store.write([{ table: "rootKeys", row }])).toBe("written");
    expect(await store.findRootKey("root-digest-1")).toEqual({ ...row, version: 1 });
    expect(await store.write([{ table: "rootKeys", row: { ...row, version: 1, enabled: true } }])).toBe("written");
    expect((await store.findRootKey("root-digest-1"))?.enabled).toBe(true);
    // Neither is the other, and digests match exactly.
    expect(await store.findKey("root-digest-1")).toBeUndefined();
    expect(await store.findRootKey("digest-1")).toBeUndefined();
    for (const digest of ["ROOT-digest-1", "root-digest-1 ", "root-digest-", "%"])
      expect(await store.findRootKey(digest)).toBeUndefined();
    expect(await store.write([{ table: "rootKeys", remove: row.id, version: 2 }])).toBe("written");
    expect(await store.write([{ table: "rootKeys", remove: row.id, version: 2 }])).toBe("conflict");
    expect(await store.findRootKey("root-digest-1")).toBeUndefined();
  });

  clause("clause 19: a digest belongs to one root key, whatever the workspace", async (store) => {
    expect(await store.write([{ table: "rootKeys", row: rootKey(1) }])).toBe("written");
    const same = { digest: "root-digest-1" };
    const theirs = { ...same, workspaceId: "ws_2" };
    expect(await store.write([{ table: "rootKeys", row: rootKey(2, same) }])).toBe("taken");
    expect(await store.write([{ table: "rootKeys", row: rootKey(2, theirs) }])).toBe("taken");
    expect(await store.write([{ table: "rootKeys", row: rootKey(2, { workspaceId: "ws_2" }) }])).toBe("written");
    expect(await store.write([{ table: "rootKeys", row: rootKey(2, { ...theirs, version: 1 }) }])).toBe("taken");
    expect((await store.findRootKey("root-digest-1"))?.id).toBe("root_1");
    expect((await store.findRootKey("root-digest-2"))?.id).toBe("root_2");
    expect(await store.write([{ table: "rootKeys", remove: "root_1", version: 1 }])).toBe("written");
    expect(await store.write([{ table: "rootKeys", row: rootKey(3, theirs) }])).toBe("written");
    expect((await store.findRootKey("root-digest-1"))?.id).toBe("root_3");
  });

  clause(
    "clause 19: a change of a root key is notified as its digest, old and new, or as all; one of a namespace need not be",
    async (store) => {
      const heard = await followsRootKey({ here: store, there: store }, 1);
      await store.write([{ table: "rootKeys", row: rootKey(2) }]);
      await heard();
      expect(await store.write([{ table: "rootKeys", row: rootKey(2, { version: 7 }) }])).toBe("conflict");
      expect(await heard()).toEqual([]);
      for (const write of UNSEEN) expect(await store.write([write])).toBe("written");
      expect((await heard()).filter((change) => change !== "all")).toEqual([]);
    },
  );
}
