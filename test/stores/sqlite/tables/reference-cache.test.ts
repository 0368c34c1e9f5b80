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
  it("10,000 short lists are kept, and each is the same object again", async () => {
    const { directory, reads } = world();
    const texts = Array.from({ length: 10_000 }, (_, i) =>
      textOf([`a${i % 100}`, `b${i % 7}`, `c${i}`.slice(0, 4), "d", `e${i % 13}`, `f${i}`]),
    );
    const first = await Promise.all(texts.map(directory.grants));
    const { permissions } = reads;
    expect(await Promise.all(texts.map(directory.grants))).toEqual(first);
    expect(texts.every((text, i) => directory.grants(text) === first[i])).toBe(true);
    expect(reads.permissions).toBe(permissions);
  });

  it("long lists are kept by their size: 1,000 of 1,000 permissions are let go, the last ones are there", async () => {
    const { directory } = world();
    const names = Array.from({ length: PERMISSIONS }, (_, i) => `perm_${i}`);
    const texts = Array.from({ length: 1_000 }, (_, i) => textOf([...names, `own_${i}`]));
    const [first] = await Promise.all(texts.map(directory.grants));
    const again = await directory.grants(texts[0] as string);
    expect(again).not.toBe(first);
    expect(again).toEqual(first);
    expect(directory.grants(texts[999] as string)).toBe(directory.grants(texts[999] as string));
  });

  it("what is larger than the bound is kept alone, and not made anew at each find", async () => {
    const { directory, reads } = world();
    const wide = (prefix: string) =>
      textOf(Array.from({ length: 400 }, (_, i) => `${prefix}_${i}`.padEnd(100_000, "x")));
    const [perm, otherText] = [wide("perm"), wide("other")];
    const first = await directory.grants(perm);
    const { permissions } = reads;
    expect(directory.grants(perm)).toBe(first);
    expect(reads.permissions).toBe(permissions);
    const other = await directory.grants(otherText);
    expect(directory.grants(otherText)).toBe(other);
    expect(await directory.grants(perm)).not.toBe(first);
  });

  it("the permissions of a role are read by one statement, once for all keys that have it, and sorted", async () => {
    const { directory, reads } = world();
    const roles = Array.from({ length: 20 }, (_, i) => `role_${i}`);
    const { permissions, roles: names } = await directory.grants(textOf(["perm_5", "other"], roles));
    expect(reads.statements).toBe(2 * roles.length + 1);
    await directory.grants(textOf(["perm_5"], roles));
    expect(reads.statements).toBe(2 * roles.length + 2);
    expect(permissions).toEqual([...new Set(permissions)].sort());
    expect([permissions.length, names]).toEqual([PERMISSIONS + 1, roles.map((id) => `name.${id}`).sort()]);
  });

  it("what many calls ask for at once is read once, and not kept if something changes meanwhile", async () => {
    const { directory, reads } = world();
    const text = textOf([], ["role_1", "role_2"]);
    const [one, two] = [directory.grants(text), directory.grants(text)];
    expect(two).toBe(one);
    directory.clear();
    const three = directory.grants(text);
    expect(three).not.toBe(one);
    expect(await three).toEqual(await one);
    expect(directory.grants(text)).toBe(await three);
    // What the first read found after the change is used by the other.
    expect(reads.roles).toBe(3);
    expect(directory.grants("")).toEqual({ permissions: [], roles: [] });
  });

  it("roles are kept by their size, too", async () => {
    const { directory, reads } = world();
    for (let i = 0; i < 1_000; i++) await directory.grants(textOf([], [`role_${i}`]));
    expect(reads.roles).toBe(1_000);
    await directory.grants(textOf(["p"], ["role_999"]));
    expect(reads.roles).toBe(1_000);
    await directory.grants(textOf(["p"], ["role_0"]));
    expect(reads.roles).toBe(1_001);
  });
});
