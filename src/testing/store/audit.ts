/** The audit trail: clause 25. */
import type { AuditEntry } from "../../contracts/audit.js";
import type { CreditChange, Store } from "../../contracts/store.js";
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

const ids = ["role_a", "role_b", "mig_1"];
const CHANGES: NonNullable<AuditEntry["changes"]> = [
  { field: "enabled", from: true, to: false },
  { field: "name", to: "日本 ' \" \\" },
  { field: "ratelimits", removed: [{ name: "requests", limit: 5 }], added: ["a"] },
];
/** Of a slice: entries to look at, and to find. */
const SIZES = [
  [100, 100],
  [1, 1],
  [3, 100],
  [100, 2],
] as const;

/** All entries that are asked for, in their order. */
async function readAudit(store: Store, wanted: object = { ids }, among = 100, limit = 100): Promise<AuditEntry[]> {
  const found: AuditEntry[] = [];
  const numbers: number[] = [];
  for (let before: number | undefined, slices = 0; slices < 100; slices++) {
    const query = { workspaceId: WS, among, limit, ...wanted, ...(before !== undefined && { before }) };
    const slice = await store.readAudit(query);
    expect(slice.entries.length <= limit, "bound of a slice").toBe(true);
    found.push(...slice.entries.map(({ number: _, ...entry }) => entry));
    numbers.push(...slice.entries.map(({ number }) => number));
    before = slice.next;
    if (before !== undefined) continue;
    expect(numbers).toEqual([...numbers].sort((a, b) => b - a));
    return found.reverse();
  }
  throw new Error("the trail does not end");
}

export function auditClauses(all: Clause): void {
  const clause = withPower(all, "audit", (store: Store) => store);

  clause("clause 25: a change that has an entry is made as one without, or refused as one without", async (store) => {
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

  clause("clause 25: entries of what was written are kept, in their order, and no others", async (store) => {
    const roles = [role("a", []), role("b", [])].map((row) => ({ table: "roles" as const, row }));
    const made = [
      entry("createRole", { fields: ["name", "permissions"], count: 2, changes: CHANGES }),
      { ...entry("createRole"), actor: "日本 ' \"", ids: ["role_b", "role_a"] },
    ];
    const { actor: _, ...byProgram } = entry("deleteRole");
    expect(await store.write(roles, made)).toBe("written");
    expect(await store.write(roles, [entry("createAgain")])).toBe("taken");
    const removal = { table: "roles" as const, remove: "role_a" };
    expect(await store.write([{ ...removal, version: 7 }], [entry("removeOther")])).toBe("conflict");
    expect(await store.write([{ ...removal, version: 1 }], [byProgram])).toBe("written");
    expect(await readAudit(store)).toEqual([...made, byProgram]);
    expect(await readAudit(store, { ids: ["role_b"] })).toEqual([made[1]]);
    for (const none of [{ workspaceId: "ws_2" }, { ids: [] }, { ids: ["role"] }, { to: NOW }, { from: NOW + 1 }])
      expect(await readAudit(store, { ids, ...none }), JSON.stringify(none)).toEqual([]);
    expect((await store.readAudit({ workspaceId: WS, among: 9, limit: 1 })).entries).toMatchObject([byProgram]);
  });

  clause("clause 25: the entry of a change of a balance is kept with what it added and left", async (store) => {
    await insert(store, keyRow(1, { hasCredits: true }), { remaining: 9, amount: 0, period: 0 });
    const change = async (credits: CreditChange, over: Partial<AuditEntry> = {}): Promise<AuditEntry | undefined> => {
      const row = (await readRow(store, "keys", keyRow(1).id))!;
      await store.write([{ table: "keys", row, credits: { ...credits, period: 0 } }], [entry("updateCredits", over)]);
      return (await store.readAudit({ workspaceId: WS, among: 1, limit: 1 })).entries[0];
    };
    for (const [credits, added, remaining] of [
      [{ add: 5 }, 5, 14],
      [{ add: -20 }, -14, 0],
      [{ remaining: 30 }, 30, 30],
      [{ remaining: 12 }, -18, 12],
      [{ refill: { amount: 3 } }, 0, 12],
      [{ remaining: null }, -12, null],
      [{ remaining: 4 }, 4, 4],
      [{ add: Number.MAX_SAFE_INTEGER }, Number.MAX_SAFE_INTEGER - 4, Number.MAX_SAFE_INTEGER],
    ] as const)
      expect((await change({ period: 0, ...credits }))?.credits, JSON.stringify(credits)).toEqual({ added, remaining });
    const reason = "日本 ' \"";
    expect(await change({ period: 0, remaining: 1 }, { reason })).toMatchObject({
      reason,
      credits: { added: 1 - Number.MAX_SAFE_INTEGER, remaining: 1 },
    });
    const [first] = await readAudit(store, { operation: "updateCredits" });
    expect(Object.keys(first!).includes("reason")).toBe(false);
  });

  clause("clause 25: an entry of new keys counts those that were inserted, and is not kept for none", async (store) => {
    await insert(store, keyRow(1));
    const batch = (...numbers: readonly number[]) => numbers.map((n) => ({ row: keyRow(n) }));
    const imported = entry("migrateKeys", { ids: ["mig_1", "api_1"], count: 3 });
    expect(await store.insertKeys(batch(1, 2, 3), imported)).toEqual([false, true, true]);
    expect(await store.insertKeys(batch(1, 2, 3), imported)).toEqual([false, false, false]);
    expect(await store.insertKeys(batch(4), entry("createKey", { ids: ["mig_1"] }))).toEqual([true]);
    expect(await readAudit(store)).toEqual([{ ...imported, count: 2 }, entry("createKey", { ids: ["mig_1"] })]);
  });

  clause("clause 25: many entries of one workspace leave those of another", async (store) => {
    const write = (id: string, entries: readonly AuditEntry[]) =>
      store.write([{ table: "roles", row: role(id, []) }], entries);
    const other = entry("other", { workspaceId: "ws_2" });
    expect(await write("first", [other])).toBe("written");
    const many = Array.from({ length: 3_000 }, () => entry("many"));
    for (let n = 0; n < 4; n++) expect(await write(`many${n}`, many)).toBe("written");
    expect(await readAudit(store, { workspaceId: "ws_2" }, 1)).toEqual([other]);
  });

  clause("clause 25: entries are read newest first, by ids, actor, operation and time, in slices", async (store) => {
    const entries = Array.from({ length: 9 }, (_, n): AuditEntry => {
      const what = { time: NOW + n, ids: [`id_${n}`, "id"], fields: ["a"], count: n };
      const { actor: __, ...made } = entry(`act${n % 2}`, { ...what, workspaceId: n === 4 ? "ws_2" : WS });
      return n % 3 > 0 ? { ...made, actor: `root_${n % 3}` } : made;
    });
    for (const [n, entry] of entries.entries())
      await store.write([{ table: "roles", row: role(`r${n}`, []) }], [entry]);
    const own = entries.filter(({ workspaceId }) => workspaceId === WS);
    for (const [among, limit] of SIZES) {
      const read = (wanted: object) => readAudit(store, wanted, among, limit);
      expect(await read({})).toEqual(own);
      expect(await read({ actor: "root_1" })).toEqual(own.filter(({ actor }) => actor === "root_1"));
      expect(await read({ operation: "act1" })).toEqual(own.filter(({ count }) => count % 2 === 1));
      expect(await read({ ids: ["id_7", "id_2", "none"] })).toEqual([entries[2], entries[7]]);
      expect(await read({ from: NOW + 7, ids: ["id"] })).toEqual([entries[7], entries[8]]);
      expect(await read({ from: NOW + 2, to: NOW + 4 })).toEqual([entries[2], entries[3]]);
    }
    expect(await readAudit(store, { workspaceId: "ws_3" }, 2, 2)).toEqual([]);
  });
}
