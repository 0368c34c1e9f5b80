import { describe, expect, it } from "vitest";
import type { AuditEntry, AuditSlice } from "../../src/contracts/audit.js";
import { createMemoryAudit } from "../../src/stores/memory-audit.js";

const entry = (n: number): AuditEntry => ({
  ...{ time: n, workspaceId: "ws_1", actorKind: "program", operation: "createKey", ids: [`key_${n}`], fields: [] },
  count: 1,
});

describe("createMemoryAudit", () => {
  it("keeps the latest 10,000 entries, and their numbers", () => {
    const audit = createMemoryAudit();
    for (let n = 1; n <= 10_003; n++) audit.record(entry(n));
    const found: number[] = [];
    for (let before: number | undefined; ;) {
      const query = { workspaceId: "ws_1", among: 1_000, limit: 300, ...(before !== undefined && { before }) };
      const slice = audit.readAudit(query) as AuditSlice;
      found.push(...slice.entries.map(({ number }) => number));
      if (slice.next === undefined) break;
      before = slice.next;
    }
    expect(found).toEqual(Array.from({ length: 10_000 }, (_, i) => 10_003 - i));
    const read = (id: string) => audit.readAudit({ workspaceId: "ws_1", ids: [id], among: 20_000, limit: 5 });
    expect([read("key_3"), read("key_4")]).toEqual([{ entries: [] }, { entries: [{ ...entry(4), number: 4 }] }]);
  });

  it("full, the workspace that has most loses its oldest, whoever adds one", () => {
    const audit = createMemoryAudit();
    const add = (workspaceId: string, from: number, to: number) => {
      for (let n = from; n <= to; n++) audit.record({ ...entry(n), workspaceId });
    };
    const count = (workspaceId: string) =>
      (audit.readAudit({ workspaceId, among: 20_000, limit: 20_000 }) as AuditSlice).entries.length;
    add("ws_small", 1, 100);
    add("ws_flood", 1, 30_000);
    expect([count("ws_small"), count("ws_flood")]).toEqual([100, 9_900]);
    add("ws_other", 1, 6_000);
    expect([count("ws_small"), count("ws_flood"), count("ws_other")]).toEqual([100, 4_950, 4_950]);
  });

  it("full of workspaces that have one entry each, the first loses it, and adds another", () => {
    const audit = createMemoryAudit();
    for (let n = 1; n <= 10_001; n++) audit.record({ ...entry(n), workspaceId: `ws_${n}` });
    const read = (n: number) => audit.readAudit({ workspaceId: `ws_${n}`, among: 10, limit: 10 }) as AuditSlice;
    expect([1, 2, 10_001].map((n) => read(n).entries.length)).toEqual([0, 1, 1]);
    audit.record({ ...entry(10_002), workspaceId: "ws_1" });
    expect([1, 2, 3].map((n) => read(n).entries.length)).toEqual([1, 0, 1]);
  });
});
