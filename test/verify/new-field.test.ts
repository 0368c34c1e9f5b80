/**
 * A field and a check that are new to keystile: its source with the lines that a stranger adds, built and used.
 * Whatever happened to the cache, a key that the new check refuses is never VALID.
 */
import { build } from "esbuild";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KEY_FIELDS, type KeyField } from "../../src/contracts/key-fields.js";
import type { KeyRow, Store } from "../../src/contracts/store.js";
import { digestKey } from "../../src/lib/hash.js";
import { api, identity, keyRow, role } from "../../src/testing/store/rows.js";
import type { CacheOptions } from "../../src/cache/key-cache.js";

const ROOT = join(import.meta.dirname, "../..");

/** The new fields by name: one of each part of the record and each shape, and a value that looks like none. */
const PARTS = { key: "key", policy: "key.policy", rare: "key.rare" } as const;
const SHAPES = { text: ['"text"', ""], count: ['"count"', 0], list: ['["text"]', []], meta: ['"meta"', {}] } as const;
const FIELDS = Object.keys(PARTS).flatMap((part) =>
  Object.entries(SHAPES).map(([shape, [row, value]]) => ({ name: `${part}_${shape}`, part, row, value })),
);

const LINES: Readonly<Record<string, readonly [before: string, added: string]>> = {
  "src/contracts/key-fields.ts": [
    '\n  ref: { record: "key"',
    FIELDS.map(
      ({ name, part, row }) => `  ${name}: { row: ${row}, absent: true, record: "${part}", from: "row" },`,
    ).join("\n"),
  ],
  "src/verify/verify-key.ts": [
    '  { code: "INSUFFICIENT_PERMISSIONS",',
    Object.entries(PARTS)
      .map(([part, place]) => {
        const fields = JSON.stringify(FIELDS.filter((field) => field.part === part).map(({ name }) => name));
        const fails = `${fields}.some((field) => ${place}[field] !== undefined)`;
        // One of them asks somebody first.
        const answer = part === "rare" ? `Promise.resolve(${fails})` : fails;
        return `  { code: "FORBIDDEN", fails: (_, key) => ${answer} },`;
      })
      .join("\n"),
  ],
  "src/verify/explain.ts": [
    "  ({ permissions }, { policy: { grants } }) => {",
    Object.keys(PARTS)
      .map((part) => `  () => ({ new: "${part}" }),`)
      .join("\n"),
  ],
};

mkdirSync(join(ROOT, ".cache"), { recursive: true });
const folder = mkdtempSync(join(ROOT, ".cache/new-field-"));
afterAll(() => rmSync(folder, { recursive: true }));

type Keystile = Pick<typeof import("../../src/index.js"), "createVerifier" | "explain" | "memoryStore"> &
  Pick<typeof import("../../src/stores/sqlite/index.js"), "sqliteStore">;
let keystile: Keystile;

beforeAll(async () => {
  const added: string[] = [];
  await build({
    stdin: {
      contents: 'export * from "./src/index.js"; export { sqliteStore } from "./src/stores/sqlite/index.js";',
      resolveDir: ROOT,
    },
    outfile: join(folder, "keystile.mjs"),
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
    plugins: [
      {
        name: "stranger",
        setup({ onLoad }) {
          for (const [path, [before, lines]] of Object.entries(LINES))
            onLoad({ filter: new RegExp(`${path.replace(/[.]/g, "\\.")}$`) }, () => {
              const source = readFileSync(join(ROOT, path), "utf8");
              if (source.split(before).length !== 2) throw new Error(`${path} has not one place for a new line`);
              added.push(path);
              return { contents: source.replace(before, () => `${lines}\n${before}`), loader: "ts" };
            });
        },
      },
    ],
  });
  expect(added.sort()).toEqual(Object.keys(LINES).sort());
  keystile = (await import(pathToFileURL(join(folder, "keystile.mjs")).href)) as Keystile;
});

const textOf = (n: number) => `sk_${String(n).padStart(37, "0")}`;

/** A key without any of the fields, and one with each of them. */
async function rowsOf(): Promise<readonly (KeyRow & Record<string, unknown>)[]> {
  const all = [{}, ...FIELDS.map(({ name, value }) => ({ [name]: value }))];
  return Promise.all(
    all.map(async (over, n) => ({ ...keyRow(n, { digest: await digestKey(textOf(n)), roles: ["role_r"] }), ...over })),
  );
}

async function storeWith(store: Store): Promise<Store> {
  await store.write([
    { table: "apis", row: api() },
    { table: "roles", row: role("r", []) },
    { table: "identities", row: identity("user") },
  ]);
  expect(await store.insertKeys((await rowsOf()).map((row) => ({ row })))).not.toContain(false);
  return store;
}

const STORES: Readonly<Record<string, () => Store>> = {
  memory: () => keystile.memoryStore(),
  sqlite: () => keystile.sqliteStore(":memory:"),
  "memory, as a store of the program's own": () => ({ ...keystile.memoryStore() }),
};
const CACHES: Readonly<Record<string, CacheOptions>> = {
  "by fingerprint": {},
  "by digest": { by: "digest" },
  "of one key": { size: 1 },
  "with a ttl": { ttl: 2 },
  "by digest with a ttl": { by: "digest", ttl: 2 },
};
const cases = Object.keys(STORES).flatMap((store) => Object.keys(CACHES).map((cache) => [store, cache] as const));

describe.each(cases)("a new field on %s, cached %s", (storeName, cacheName) => {
  it("is refused by the check of it, whatever the cache holds", async () => {
    const store = await storeWith(STORES[storeName]!());
    const verifier = keystile.createVerifier(store, { cache: CACHES[cacheName]!, usage: false });
    const codeOf = async (n: number) => (await verifier.verify({ key: textOf(n) })).code;
    const refusesAll = async (state: string) => {
      expect(await codeOf(0), state).toBe("VALID");
      for (const [i, { name }] of FIELDS.entries()) expect(await codeOf(i + 1), `${state}: ${name}`).toBe("FORBIDDEN");
    };
    const change = async (n: number, over: object) => {
      const [row] = await store.readMany("keys", [keyRow(n).id]);
      expect(await store.write([{ table: "keys", row: { ...row!, ...over } }])).toBe("written");
    };
    await refusesAll("cold");
    await refusesAll("called again");
    await refusesAll("called a third time");
    for (let n = 0; n <= FIELDS.length; n++) await change(n, { name: "renamed" });
    await refusesAll("after a change of the key");
    for (let n = 0; n <= FIELDS.length; n++) await change(n, { identityId: "id_user", meta: { plan: "pro" } });
    await refusesAll("with other rare fields beside it");
    const [row] = await store.readMany("roles", ["role_r"]);
    await store.write([{ table: "roles", row: { ...row!, name: "other" } }]);
    await refusesAll("after a change of what it refers to");
    await new Promise((resolve) => setTimeout(resolve, 5));
    await refusesAll("some milliseconds later");
    // Given to the key that has none, and taken away again.
    for (const { name, value } of FIELDS) {
      await change(0, { [name]: value });
      expect([await codeOf(0), await codeOf(0)], `${name} given`).toEqual(["FORBIDDEN", "FORBIDDEN"]);
      await change(0, { [name]: undefined });
      expect([await codeOf(0), await codeOf(0)], `${name} taken away`).toEqual(["VALID", "VALID"]);
    }
    await verifier.close();
    await store.close();
  });
});

it("explain tells what each check found, also of several with one code", async () => {
  const store = await storeWith(keystile.memoryStore());
  const verifier = keystile.createVerifier(store);
  for (const [i, { part }] of FIELDS.entries()) {
    const { passes, refusal, checks } = await keystile.explain(verifier, { key: textOf(i + 1) });
    expect([passes, refusal]).toEqual([false, "FORBIDDEN"]);
    expect(checks.filter((check) => "new" in check)).toEqual(
      Object.keys(PARTS).map((of) => ({ code: "FORBIDDEN", passes: of !== part, new: of })),
    );
  }
  await verifier.close();
});

const codeOf = (path: string): string => readFileSync(join(ROOT, path), "utf8").replaceAll(/\/\*[^]*?\*\/|\/\/.*/g, "");
const reads = (code: string, field: string): boolean => new RegExp(`\\b${field}\\b`).test(code);
/** The fields that a verification keeps. */
const kept = Object.entries<KeyField>(KEY_FIELDS).flatMap(([name, { record }]) => (record === undefined ? [] : [name]));

it("every field that a verification keeps is read by one: without its check each key with it would pass", () => {
  const code = ["src/verify", "src/cache", "src/ratelimit", "src/credits"]
    .flatMap((path) => readdirSync(join(ROOT, path), { recursive: true }).map((name) => join(path, String(name))))
    // What is told of a check is no check.
    .filter((path) => path.endsWith(".ts") && !path.endsWith("/explained-check.ts"))
    .map(codeOf)
    .join("\n");
  const unread = (fields: readonly string[]) => fields.filter((field) => !reads(code, field));
  expect(kept.length).toBeGreaterThan(20);
  expect(unread(kept)).toEqual([]);
  expect(unread(["noFieldIsCalledSo"])).toEqual(["noFieldIsCalledSo"]);
});

it("every field that a check reads is told of by explain: otherwise it would say that nothing speaks against the key", () => {
  const explained = codeOf("src/verify/explain.ts");
  const checks = codeOf("src/verify/verify-key.ts").match(
    /\nfunction (?:hasExpired|isForbidden|lacksPermissions)\([^]*?\n\}/g,
  );
  expect(checks).toHaveLength(3);
  const untold = (code: string) => kept.filter((field) => reads(code, field) && !reads(explained, field));
  expect(untold(checks!.join("\n"))).toEqual([]);
  expect(untold("return key.rare.startUnknown")).toEqual(["startUnknown"]);
});
