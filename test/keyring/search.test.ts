/** Search in lists: case, fields, pages, and turns of the event loop. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { createRatelimits } from "../../src/keyring/ratelimits/create-ratelimits.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { runs } from "../runs.js";
import { fault, world } from "./support.js";

const STORES: readonly (readonly [name: string, open: () => Store])[] = [
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(":memory:")],
];

describe.each(STORES)("search on the %s store", (_name, open) => {
  it("ignores case and looks at id, externalId, name, slug and description", async () => {
    const { keyring } = await world({ store: open() });
    const { permissionId } = await keyring.createPermission({
      name: "Lesen",
      slug: "documents.READ",
      description: 'Straße "Ö" \\ Key',
    });
    await keyring.createPermission({ name: "Other", slug: "other" });
    const { roleId } = await keyring.createRole({ name: "Müller", description: "ДИРЕКТОР" });
    const { identityId } = await keyring.createIdentity({ externalId: "User_1", meta: { secret: "needle" } });
    const permissions = async (search: string) => (await keyring.listPermissions({ search })).data.map(({ id }) => id);
    for (const text of [
      ...["lesen", "LESEN", "documents.read", "DOCUMENTS.R", "straße", "STRAẞE", '"ö" \\', "\\ k", "\u212aEY"],
      ...[permissionId, permissionId.toUpperCase(), permissionId.slice(-8)],
    ])
      expect(await permissions(text), text).toEqual([permissionId]);
    for (const text of ["lesen ", "strasse", ".*", "documents_read", "^", "a|b", "name", "description", '"slug"'])
      expect(await permissions(text), text).toEqual([]);
    for (const text of ["", " ", "\t \u00a0"]) expect(await permissions(text), JSON.stringify(text)).toHaveLength(2);
    for (const search of ["müLLER", "директор", roleId])
      expect((await keyring.listRoles({ search })).data, search).toHaveLength(1);
    for (const search of ["uſer", "USER_", identityId])
      expect((await keyring.listIdentities({ search })).data, search).toHaveLength(1);
    for (const search of ["needle", "secret"]) expect((await keyring.listIdentities({ search })).data).toEqual([]);
  });

  it("finds what a naive search finds, page by page", async () => {
    const { keyring } = await world({ store: open() });
    const letters = fc.constantFrom(
      "a",
      "A",
      "b",
      "k",
      "K",
      "s",
      "S",
      "ö",
      "Ö",
      "σ",
      "ς",
      "ß",
      '"',
      "\\",
      ".",
      " ",
      "😀",
    );
    const words = fc.string({ unit: letters, minLength: 1, maxLength: 6 });
    const made: { id: string; texts: string[] }[] = [];
    let n = 0;
    for (const [name, description] of fc.sample(fc.tuple(words, words), { numRuns: 60, seed: 7 })) {
      const { permissionId: id } = await keyring.createPermission({ name, description, slug: `p.${n++}` });
      made.push({ id, texts: [name, description, id, `p.${n - 1}`] });
    }
    made.sort((a, b) => (a.id < b.id ? -1 : 1));
    const fold = (text: string) => [...text].map((c) => c.replace("ς", "σ").toUpperCase().toLowerCase()).join("");
    const simple = (text: string) => [...text].map((c) => (c === "ß" ? c : fold(c))).join("");
    await fc.assert(
      fc.asyncProperty(words, fc.integer({ min: 1, max: 7 }), async (search, limit) => {
        const found: string[] = [];
        for (let cursor: string | undefined, hasMore = true; hasMore;) {
          const page = await keyring.listPermissions({ search, limit, cursor });
          found.push(...page.data.map(({ id }) => id));
          expect(page.data.length).toBeLessThanOrEqual(limit);
          ({ cursor, hasMore } = { cursor: undefined, ...page.pagination });
        }
        const isBlank = search.trim() === "";
        const naive = made.filter(
          ({ texts }) => isBlank || texts.some((text) => simple(text).includes(simple(search))),
        );
        expect(found).toEqual(naive.map(({ id }) => id));
      }),
      { numRuns: runs(60) },
    );
  });

  it("reads a large table in slices: others get their turn, and a page is exact", async () => {
    const store = open();
    const COUNT = 20_000;
    for (let start = 0; start < COUNT; start += 1_000) {
      const writes = Array.from({ length: 1_000 }, (_, i) => {
        const slug = `p.${start + i}.`;
        const id = `perm_${String(start + i).padStart(22, "0")}`;
        return { table: "permissions", row: { id, version: 0, workspaceId: "ws_default", name: "N", slug } } as const;
      });
      await store.write(writes);
    }
    const { keyring } = await world({ store });
    let turns = 0;
    let isOver = false;
    const ticking = (async () => {
      for (; !isOver; turns++) await new Promise((resolve) => setTimeout(resolve, 0));
    })();
    const page = await keyring.listPermissions({ search: ".19999.", limit: 2 });
    expect(page).toMatchObject({ data: [{ slug: "p.19999." }], pagination: { hasMore: false } });
    expect((await keyring.listPermissions({ search: "P.1999", limit: 5 })).data.map(({ slug }) => slug)).toEqual([
      "p.1999.",
      ...[0, 1, 2, 3].map((i) => `p.1999${i}.`),
    ]);
    isOver = true;
    await ticking;
    expect(turns).toBeGreaterThan(2);
  });

  it("namespaces show their ids", async () => {
    const ratelimits = createRatelimits(open());
    const { namespaceId: id } = await ratelimits.createNamespace({ name: "Mail out" });
    await ratelimits.createNamespace({ name: "other" });
    expect((await ratelimits.listNamespaces()).data).toHaveLength(2);
    expect((await ratelimits.listNamespaces({ search: "mail" })).data).toEqual([{ id, name: "Mail out" }]);
    const caller = { workspaceId: "ws_default", may: () => false, mayAny: () => true };
    expect(await fault(ratelimits.listNamespaces({}, { caller }))).toBe("CALLER_FORBIDDEN 403");
  });
});
