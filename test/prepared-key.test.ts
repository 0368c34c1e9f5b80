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
});
