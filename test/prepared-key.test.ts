import { describe, expect, it } from "vitest";
import { createQueryCompiler } from "../src/permissions.js";
import { createPreparer } from "../src/prepared-key.js";
import type { KeyRecord } from "../src/store.js";

const record = (permissions: readonly string[], roles: readonly string[] = []): KeyRecord => ({
  ref: "k",
  keyId: "k",
  workspaceId: "ws",
  apiId: "api",
  enabled: true,
  permissions,
  roles,
  ratelimits: [],
  limited: false,
  generation: 0,
  suspended: false,
  pending: false,
  ipAllowlists: [],
});

describe("createPreparer: what keys share", () => {
  it("keys with the same permissions and roles share what is derived of them", () => {
    const prepare = createPreparer();
    for (const [permissions, roles] of [[["a", "b"]], [["a"], ["r"]], [["a b"]], [[]]] as const) {
      expect(prepare(record(permissions, roles)).holdings).toBe(prepare(record([...permissions], roles && [...roles])).holdings);
    }
  });

  it("ruling B5: no two others do, whatever names a store may hold", () => {
    const prepare = createPreparer();
    const different = [
      record(["a", "b"]),
      record(["a b"]),
      record(["a\nb"]),
      record(["", "a", "b"]),
      record(["a"], ["b"]),
      record(["a", '["b"]']),
      record(["a"], ["b", "c"]),
      record(["a"], ["b c"]),
      record([' [["a"],[]]']),
      record([""]),
      record([]),
      record([], [""]),
    ].map((one) => prepare(one).holdings);
    expect(new Set(different).size).toBe(different.length);
    const query = createQueryCompiler()("a");
    expect(different.map((holdings) => holdings.satisfy(query)).indexOf(false)).toBe(1);
  });

  it("ruling C1: a limit of one key is never taken for permissions of another", () => {
    const prepare = createPreparer();
    const limit = { id: "rl_1", name: "a", limit: 1, duration: 1_000, autoApply: true };
    const limited = prepare({ ...record(['["r"]']), ratelimits: [limit] });
    const named = prepare(record(['"a"', "1", "1000", "true"], ["r"]));
    expect(named.mould).not.toBe(limited.mould);
    expect(named.mould.limits).toEqual([]);
    expect(named.holdings.copyRoles()).toEqual(["r"]);
  });

  it("memory: what is remembered is bounded by the length of the names, not by their number alone", () => {
    const prepare = createPreparer();
    const first = ["long", "short"].map((name) => prepare(record([name])));
    const fill = (length: number) => {
      for (let n = 0; n < 500; n++) prepare(record([`${n}.`.padEnd(length, "x")]));
    };
    fill(20);
    expect(prepare(record(["short"])).mould).toBe(first[1]!.mould);
    fill(10_000);
    const again = prepare(record(["long"]));
    expect(again.mould).not.toBe(first[0]!.mould);
    expect(again.holdings).not.toBe(first[0]!.holdings);
  });
});
