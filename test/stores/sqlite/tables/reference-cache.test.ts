/**
 * What the directory keeps of what keys refer to: bounded by size too, since one list may be a thousand times another.
 */
import { describe, expect, it } from "vitest";
import type { Handle, SqliteValue } from "../../../../src/stores/sqlite/connection/handle.js";
import { createReferenceCache } from "../../../../src/stores/sqlite/tables/reference-cache.js";

const PERMISSIONS = 1_000;

/**
 * A file in which every id of a permission has a row, and every role has a thousand; counts what is read of each table.
 */
function world() {
  const reads = { roles: 0, permissions: 0, statements: 0 };
  const row = (id: SqliteValue | undefined, body: object) => ({
    n: 1,
    id,
    workspace_id: "ws",
    name: `name.${String(id)}`,
    version: 1,
    body: JSON.stringify(body),
  });
  const permissions = Array.from({ length: PERMISSIONS }, (_, i) => `perm_${i}`);
  const handle: Handle = {
    exec: () => undefined,
    prepare: (sql) => ({
      get(id) {
        reads.statements++;
        if (sql.includes("keystile_permissions")) return (reads.permissions++, row(id, { name: "n" }));
        return (reads.roles++, row(id, { permissions }));
      },
      all(ids) {
        const asked = JSON.parse(String(ids)) as string[];
        reads.permissions += asked.length;
        reads.statements++;
        return asked.map((id) => row(id, { name: "n" }));
      },
      run: () => ({ changes: 0, lastInsertRowid: 0 }),
    }),
  };
  return { directory: createReferenceCache(handle), reads };
}

const textOf = (permissions: readonly string[], roles: readonly string[] = []): string =>
  JSON.stringify([permissions, roles]);

describe("createDirectory: grants", () => {
  it("10,000 short lists are kept, and each is the same object again", () => {
    const { directory, reads } = world();
    const texts = Array.from({ length: 10_000 }, (_, i) =>
      textOf([`a${i % 100}`, `b${i % 7}`, `c${i}`.slice(0, 4), "d", `e${i % 13}`, `f${i}`]),
    );
    const first = texts.map(directory.grants);
    const { permissions } = reads;
    expect(texts.every((text, i) => directory.grants(text) === first[i])).toBe(true);
    expect(reads.permissions).toBe(permissions);
  });

  it("long lists are kept by their size: 1,000 of 1,000 permissions are let go, the last ones are there", () => {
    const { directory } = world();
    const names = Array.from({ length: PERMISSIONS }, (_, i) => `perm_${i}`);
    const texts = Array.from({ length: 1_000 }, (_, i) => textOf([...names, `own_${i}`]));
    const [first] = texts.map(directory.grants);
    expect(directory.grants(texts[0] as string)).not.toBe(first);
    expect(directory.grants(texts[0] as string)).toEqual(first);
    expect(directory.grants(texts[999] as string)).toBe(directory.grants(texts[999] as string));
  });

  it("what is larger than the bound is kept alone, and not made anew at each find", () => {
    const { directory, reads } = world();
    const wide = (prefix: string) =>
      textOf(Array.from({ length: 400 }, (_, i) => `${prefix}_${i}`.padEnd(100_000, "x")));
    const [perm, otherText] = [wide("perm"), wide("other")];
    const first = directory.grants(perm);
    const { permissions } = reads;
    expect(directory.grants(perm)).toBe(first);
    expect(reads.permissions).toBe(permissions);
    const other = directory.grants(otherText);
    expect(directory.grants(otherText)).toBe(other);
    expect(directory.grants(perm)).not.toBe(first);
  });

  it("the permissions of a role are read by one statement, once for all keys that have it, and sorted", () => {
    const { directory, reads } = world();
    const roles = Array.from({ length: 20 }, (_, i) => `role_${i}`);
    const { permissions, roles: names } = directory.grants(textOf(["perm_5", "other"], roles));
    expect(reads.statements).toBe(2 * roles.length + 2);
    directory.grants(textOf(["perm_5"], roles));
    expect(reads.statements).toBe(2 * roles.length + 2);
    expect(permissions).toEqual([...new Set(permissions)].sort());
    expect([permissions.length, names]).toEqual([PERMISSIONS + 1, roles.map((id) => `name.${id}`).sort()]);
  });

  it("roles are kept by their size, too", () => {
    const { directory, reads } = world();
    const givenAlone = (i: number): void => void directory.grants(textOf([], [`role_${i}`]));
    for (let i = 0; i < 1_000; i++) givenAlone(i);
    expect(reads.roles).toBe(1_000);
    directory.grants(textOf(["p"], ["role_999"]));
    expect(reads.roles).toBe(1_000);
    directory.grants(textOf(["p"], ["role_0"]));
    expect(reads.roles).toBe(1_001);
  });
});
