/** The audit trail: clause 25. */
import type { AuditEntry } from "../../contracts/audit.js";
import type { Store } from "../../contracts/store.js";
import type { MaybePromise } from "../../contracts/types.js";
import { expect } from "../expect.js";
import type { Clause } from "./bed.js";
import { withPower } from "./powers.js";
import { insert, keyRow, NOW, readRow, role, WS } from "./rows.js";

const entry = (operation: string, over: Partial<AuditEntry> = {}): AuditEntry => ({
  time: NOW,
  workspaceId: WS,
  actorKind: "rootKey",
  actor: "root_1",
  operation,
  ids: ["role_a"],
  fields: [],
  count: 1,
  ...over,
});

/** @param readAudit reads the entries that a store keeps, oldest first */
export function auditClauses(all: Clause, readAudit?: (store: Store) => MaybePromise<readonly AuditEntry[]>): void {
  const clause = withPower(all, "audit", (store: Store) => store);

  clause("clause 25: a change that has an entry is made as one without, or refused as one without", async (open) => {
    const store = await open();
    const made = [entry("createRole"), entry("createRole", { ids: ["role_b"] })];
    const roles = [role("a", []), role("b", [])].map((row) => ({ table: "roles" as const, row }));
    expect(await store.write(roles, made)).toBe("written");
    expect(await readRow(store, "roles", "role_a")).toEqual({ ...role("a", []), version: 1 });
    expect(await store.write(roles, made)).toBe("taken");
    const removal = { table: "roles" as const, remove: "role_a", version: 7 };
    expect(await store.write([removal], [entry("deleteRole")])).toBe("conflict");
    const keys = [1, 1, 2].map((n) => ({ row: keyRow(n) }));
    expect(await store.insertKeys(keys, entry("migrateKeys", { count: 3 }))).toEqual([true, false, true]);
    expect((await store.findKey("digest-2"))?.keyId).toBe(keyRow(2).id);
  });

  if (readAudit === undefined) return;

  clause("clause 25: entries of what was written are kept, in their order, and no others", async (open) => {
    const store = await open();
    const roles = [role("a", []), role("b", [])].map((row) => ({ table: "roles" as const, row }));
    const made = [
      entry("createRole", { fields: ["name", "permissions"], count: 2 }),
      { ...entry("createRole"), actor: "日本 ' \"", ids: [] },
    ];
    const { actor: _, ...byProgram } = entry("deleteRole");
    expect(await store.write(roles, made)).toBe("written");
    expect(await store.write(roles, [entry("createAgain")])).toBe("taken");
    const removal = { table: "roles" as const, remove: "role_a" };
    expect(await store.write([{ ...removal, version: 7 }], [entry("removeOther")])).toBe("conflict");
    expect(await store.write([{ ...removal, version: 1 }], [byProgram])).toBe("written");
    expect(await readAudit(store)).toEqual([...made, byProgram]);
  });

  clause("clause 25: an entry of new keys counts those that were inserted, and is not kept for none", async (open) => {
    const store = await open();
    await insert(store, keyRow(1));
    const batch = (...numbers: readonly number[]) => numbers.map((n) => ({ row: keyRow(n) }));
    const imported = entry("migrateKeys", { ids: ["mig_1", "api_1"], count: 3 });
    expect(await store.insertKeys(batch(1, 2, 3), imported)).toEqual([false, true, true]);
    expect(await store.insertKeys(batch(1, 2, 3), imported)).toEqual([false, false, false]);
    expect(await store.insertKeys(batch(4), entry("createKey"))).toEqual([true]);
    expect(await readAudit(store)).toEqual([{ ...imported, count: 2 }, entry("createKey")]);
  });
}
