/** The judge of every store: each clause of src/contracts/store.ts, under its number. A new store passes this before anything else. */
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { isKeystileError } from "../../src/contracts/errors.js";
import { type FieldsThat, fieldsThat, KEY_FIELDS, type KeyField, type Shape } from "../../src/contracts/key-fields.js";
import type {
  ApiRow,
  Change,
  IdentityRow,
  KeyRow,
  NewBalance,
  OverrideRow,
  PermissionRow,
  RoleRow,
  RootKeyRow,
  Store,
  Write,
} from "../../src/contracts/store.js";
import type { JsonObject } from "../../src/contracts/types.js";
import { runs } from "../runs.js";

const WS = "ws_1";
const NOW = 1_700_000_000_000;

const api = (over: Partial<ApiRow> = {}): ApiRow => ({
  id: "api_1",
  workspaceId: WS,
  version: 0,
  name: "docs",
  enabled: true,
  ipAllowlist: [],
  deleted: false,
  createdAt: NOW,
  ...over,
});
export const keyRow = (n: number, over: Partial<KeyRow> = {}): KeyRow => ({
  id: `key_${String(n).padStart(6, "0")}`,
  workspaceId: WS,
  version: 0,
  apiId: "api_1",
  digest: `digest-${n}`,
  start: "abcd",
  enabled: true,
  permissions: [],
  roles: [],
  ratelimits: [],
  ipAllowlist: [],
  hasCredits: false,
  generation: 0,
  deleted: false,
  createdAt: NOW,
  ...over,
});
const permission = (slug: string, over: Partial<PermissionRow> = {}): PermissionRow => ({
  id: `perm_${slug.replace(/\W/g, "_")}`,
  workspaceId: WS,
  version: 0,
  name: slug,
  slug,
  ...over,
});
const role = (name: string, permissions: string[], over: Partial<RoleRow> = {}): RoleRow => ({
  id: `role_${name}`,
  workspaceId: WS,
  version: 0,
  name,
  permissions,
  ...over,
});
const identity = (externalId: string, over: Partial<IdentityRow> = {}): IdentityRow => ({
  id: `id_${externalId}`,
  workspaceId: WS,
  version: 0,
  externalId,
  ratelimits: [],
  ...over,
});
const rootKey = (n: number, over: Partial<RootKeyRow> = {}): RootKeyRow => ({
  id: `root_${n}`,
  workspaceId: WS,
  version: 0,
  digest: `root-digest-${n}`,
  start: "root_abcd",
  permissions: [],
  enabled: true,
  createdAt: NOW,
  ...over,
});
const override = (namespaceId: string, identifier: string, over: Partial<OverrideRow> = {}): OverrideRow => ({
  id: `ov_${namespaceId}_${identifier.length}`,
  workspaceId: WS,
  version: 0,
  namespaceId,
  identifier,
  limit: 5,
  duration: 60_000,
  ...over,
});
const balance = (remaining: number, over: Partial<NewBalance> = {}): NewBalance => ({
  remaining,
  amount: 0,
  period: 0,
  ...over,
});

const meta: fc.Arbitrary<JsonObject> = fc
  .array(
    fc.tuple(
      fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("__proto__", "constructor", "toString", "")),
      fc.jsonValue({ depthSize: "small" }),
    ),
    { maxLength: 6 },
  )
  .map(
    (entries) =>
      JSON.parse(
        `{${entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",")}}`,
      ) as JsonObject,
  );

/** Values of each named shape, none of which is what most keys have. */
const SAMPLES: Readonly<Record<Extract<Shape, string>, unknown>> = {
  text: "ключ 日本 \u{1f511}",
  name: "límite\n",
  integer: Number.MAX_SAFE_INTEGER,
  count: 0,
  time: 8.64e15,
  flag: true,
  meta: { a: [], b: { c: null, "": 0.5 } },
  refill: { interval: "monthly", amount: 5, refillDay: 31 },
};
function sampleOf(shape: Shape): unknown {
  if (typeof shape === "string") return SAMPLES[shape];
  if (Array.isArray(shape)) return [sampleOf(shape[0] as Shape)];
  return Object.fromEntries(Object.entries(shape).map(([name, part]) => [name, sampleOf(part)]));
}
/** A row that has every field of the table, and none as most keys have it; what names another row names one that {@link withRelated} makes. */
function fullRow(n: number): Required<KeyRow> {
  const sampled = Object.fromEntries(
    Object.entries<KeyField>(KEY_FIELDS).flatMap(([name, { row, usual }]) =>
      row === undefined ? [] : [[name, row === "flag" ? usual !== true : sampleOf(row)]],
    ),
  ) as unknown as Required<KeyRow>;
  const own = {
    id: `key_full_${n}`,
    digest: `digest-full-${n}`,
    foreignDigest: `foreign-${n}`,
    workspaceId: WS,
    apiId: "api_1",
    version: 0,
  };
  return { ...sampled, ...own, identityId: "id_user", permissions: ["perm_a_read"], roles: ["role_r"], deleted: false };
}
const RELATED: readonly Write[] = [
  { table: "permissions", row: permission("a.read") },
  { table: "permissions", row: permission("b.read") },
  { table: "roles", row: role("r", ["perm_b_read"]) },
  { table: "identities", row: identity("user", { meta: { plan: "pro" } }) },
];
/** Fields without which a key is another's, or cannot be found. */
const NEEDED = ["id", "version", "workspaceId", "apiId", "digest"];

/** @param open makes a new, empty store; called once a test and again for clause 12 */
export function storeSuite(title: string, open: () => Store | Promise<Store>): void {
  const opened: Store[] = [];
  const fresh = async (): Promise<Store> => {
    const store = await open();
    opened.push(store);
    return store;
  };
  const withApi = async (): Promise<Store> => {
    const store = await fresh();
    expect(await store.write([{ table: "apis", row: api() }])).toBe(true);
    return store;
  };
  const insert = async (store: Store, row: KeyRow, credits?: NewBalance): Promise<boolean | undefined> =>
    (await store.insertKeys([{ row, ...(credits && { balance: credits }) }]))[0];
  const refOf = async (store: Store, digest: string) => {
    const record = await store.findKey(digest);
    if (record === undefined) throw new Error("the key was not found");
    return record.ref;
  };

  describe(`store: ${title}`, () => {
    afterEach(async () => {
      for (const store of opened.splice(0)) await store.close();
    });

    it("clause 1: what is unknown is undefined, or absent from a list", async () => {
      const store = await withApi();
      expect(await store.findKey("nothing")).toBeUndefined();
      expect(await store.findForeignKey("mig", "nothing")).toBeUndefined();
      expect(await store.findRootKey("nothing")).toBeUndefined();
      expect(await store.read("roles", "role_x")).toBeUndefined();
      expect(await store.readNames("roles", WS, ["x", "y"])).toEqual([]);
      expect(await store.list("keys", { workspaceId: WS, limit: 10 })).toEqual([]);
      expect(await store.readBalance("key_x", 0, 0)).toBeUndefined();
      await insert(store, keyRow(1));
      const ref = await refOf(store, "digest-1");
      expect(await store.spendCredits(ref, 1, 0, 0)).toBeUndefined();
      expect(await store.readBalance("key_000001", 4, 0)).toEqual({ remaining: null, period: 4, reserved: 0 });
      expect(await store.returnCredits(ref, "nobody", 0, 5)).toBeUndefined();
    });

    it("clause 2: digests, ids and names match exactly", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { digest: "AbC", foreignDigest: "FoR", migrationId: "mig_1" }));
      await store.write([{ table: "roles", row: role("Admin", []) }]);
      await store.write([{ table: "identities", row: identity("é") }]);
      for (const digest of ["abc", "ABC", "AbC ", " AbC", "Ab", "AbC\0"])
        expect(await store.findKey(digest)).toBeUndefined();
      expect((await store.findKey("AbC"))?.keyId).toBe("key_000001");
      expect(await store.findForeignKey("mig_1", "for")).toBeUndefined();
      expect(await store.findForeignKey("MIG_1", "FoR")).toBeUndefined();
      expect((await store.findForeignKey("mig_1", "FoR"))?.keyId).toBe("key_000001");
      expect(await store.readNames("roles", WS, ["admin", "ADMIN"])).toEqual([]);
      expect(await store.readNames("identities", WS, ["e\u0301"])).toEqual([]);
      expect(await store.readNames("identities", WS, ["é"])).toHaveLength(1);
      expect(await store.read("keys", "KEY_000001")).toBeUndefined();
    });

    it("clause 3: any row survives a round trip", async () => {
      const store = await withApi();
      let n = 0;
      await fc.assert(
        fc.asyncProperty(
          meta,
          fc.string({ unit: "grapheme" }).filter((name) => !name.includes("\0")),
          fc.option(fc.integer({ min: 0, max: 8.64e15 }), { nil: undefined }),
          fc.constantFrom(0, 1, 10 ** 12, Number.MAX_SAFE_INTEGER),
          async (data, name, expires, remaining) => {
            const row = keyRow(++n, { meta: data, name, ...(expires !== undefined && { expires }), hasCredits: true });
            expect(await insert(store, row, balance(remaining))).toBe(true);
            expect(await store.read("keys", row.id)).toEqual({ ...row, version: 1 });
            const found = await store.findKey(row.digest!);
            expect(JSON.stringify(found?.meta)).toBe(JSON.stringify(data));
            expect(found).toMatchObject({
              keyId: row.id,
              name,
              enabled: true,
              permissions: [],
              roles: [],
              hasCredits: true,
              unadopted: false,
            });
            expect("expires" in found!).toBe(expires !== undefined);
            expect("identity" in found!).toBe(false);
            expect((await store.readBalance(row.id, 0, 0))?.remaining).toBe(remaining);
          },
        ),
        { numRuns: runs(60) },
      );
      const refilled = keyRow(++n, {
        hasCredits: true,
        refill: { interval: "monthly", amount: 5, refillDay: 31 },
        refillCursor: NOW,
        identityId: "id_日本",
        ipAllowlist: ["::1"],
        updatedAt: 0,
        hash: "as given",
        migrationId: "mig_1",
        foreignDigest: "compared",
        generation: 3,
        deleted: true,
      });
      expect(await store.write([{ table: "identities", row: identity("日本") }])).toBe(true);
      expect(await insert(store, refilled, balance(1))).toBe(true);
      expect(await store.read("keys", refilled.id)).toEqual({ ...refilled, version: 1 });
      const others = [
        { table: "identities", row: identity("日本人", { meta: { a: [] }, ratelimits: [] }) },
        { table: "roles", row: role("r", ["perm_x"], { description: "" }) },
        { table: "permissions", row: permission("a.*", { description: "ü" }) },
        { table: "migrations", row: { id: "mig_1", workspaceId: WS, version: 0, algorithm: "sha256" } },
        { table: "workspaces", row: { id: WS, version: 0, enabled: true } },
        {
          table: "rootKeys",
          row: rootKey(1, { name: "ü", permissions: ["a.*", "ßvc:v1:ws:**#*"], expires: 0, enabled: false }),
        },
        { table: "namespaces", row: { id: "ns_1", workspaceId: WS, version: 0, name: "mails out", createdAt: 0 } },
        { table: "overrides", row: override("ns_1", "a b  c@日本", { limit: 0, duration: Number.MAX_SAFE_INTEGER }) },
      ] as const;
      expect(await store.write(others)).toBe(true);
      for (const { table, row } of others) expect(await store.read(table, row.id)).toEqual({ ...row, version: 1 });
    });

    it("clause 3: every field of a key survives a round trip, each also by itself, and each also taken away", async () => {
      const store = await withApi();
      await store.write(RELATED);
      const usual = keyRow(0);
      const rows = [fullRow(0), { ...fullRow(1), deleted: true }];
      for (const [name, { row, absent }] of Object.entries<KeyField>(KEY_FIELDS)) {
        if (row === undefined || NEEDED.includes(name)) continue;
        const [full, alone] = [
          fullRow(rows.length),
          { ...keyRow(rows.length), ...(name === "identityId" && { identityId: "id_user" }) },
        ];
        const { [name as "name"]: _, ...without } = full;
        rows.push((absent === true ? without : { ...full, [name]: usual[name as keyof KeyRow] }) as Required<KeyRow>);
        rows.push({ ...alone, [name]: full[name as keyof KeyRow] } as Required<KeyRow>);
      }
      // Written one by one and in a batch, new and again.
      const half = rows.length >> 1;
      for (const row of rows.slice(0, half)) expect(await store.write([{ table: "keys", row }])).toBe(true);
      expect(await store.insertKeys(rows.slice(half).map((row) => ({ row })))).not.toContain(false);
      for (const row of rows) expect(await store.read("keys", row.id)).toStrictEqual({ ...row, version: 1 });
      for (const row of rows) expect(await store.write([{ table: "keys", row: { ...row, version: 1 } }])).toBe(true);
      for (const row of rows) expect(await store.read("keys", row.id)).toStrictEqual({ ...row, version: 2 });
      const listed = await store.list("keys", { workspaceId: WS, limit: rows.length });
      expect(listed.find(({ id }) => id === rows[0]!.id)).toStrictEqual({ ...rows[0], version: 2 });
    });

    it("clause 3: every field of a record is the row's, or what it refers to", async () => {
      const store = await withApi();
      await store.write([...RELATED, { table: "apis", row: api({ version: 1, ipAllowlist: ["10.0.0.0/8"] }) }]);
      const row = fullRow(1);
      await insert(store, row);
      const found = (await store.findKey(row.digest))!;
      const made = {
        ref: found.ref,
        keyId: row.id,
        permissions: ["a.read", "b.read"],
        roles: ["r"],
        identity: { id: "id_user", externalId: "user", meta: { plan: "pro" } },
        parentDisabled: false,
        unadopted: false,
        ipAllowlists: [row.ipAllowlist, ["10.0.0.0/8"]],
      } satisfies Record<FieldsThat<{ from: "made" }>, unknown>;
      const copied = Object.fromEntries(fieldsThat({ from: "row" }).map((name) => [name, row[name]]));
      const whole = { ...made, ...copied };
      expect(found).toStrictEqual(whole);
      expect(await store.findForeignKey(row.migrationId, row.foreignDigest)).toStrictEqual(whole);
    });

    it("clause 3: a record has roles and permissions flattened, identity and limits beside them", async () => {
      const store = await withApi();
      const limit = { id: "rl_00000001", name: "requests", limit: 5, duration: 1000, autoApply: true };
      await store.write([
        { table: "permissions", row: permission("b.read") },
        { table: "permissions", row: permission("a.read") },
        { table: "roles", row: role("z", ["perm_a_read", "perm_b_read", "perm_gone"]) },
        { table: "roles", row: role("y", []) },
        { table: "identities", row: identity("user", { meta: { plan: "pro" }, ratelimits: [limit] }) },
      ]);
      await insert(
        store,
        keyRow(1, {
          permissions: ["perm_b_read"],
          roles: ["role_z", "role_y", "role_gone"],
          identityId: "id_user",
          ratelimits: [limit],
        }),
      );
      expect(await store.findKey("digest-1")).toMatchObject({
        permissions: ["a.read", "b.read"],
        roles: ["y", "z"],
        identity: { id: "id_user", externalId: "user", meta: { plan: "pro" }, ratelimits: [limit] },
        ratelimits: [limit],
        parentDisabled: false,
        ipAllowlists: [],
      });
      expect((await store.read("keys", "key_000001"))?.identityId).toBe("id_user");
    });

    it("clause 4: duplicates are reported singly", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { foreignDigest: "f1", migrationId: "m" }));
      const batch = [
        keyRow(2),
        keyRow(3, { digest: "digest-1" }),
        keyRow(4, { digest: "digest-2" }),
        keyRow(5, { foreignDigest: "f1" }),
        keyRow(6, { foreignDigest: "f6", migrationId: "m" }),
        keyRow(7, { foreignDigest: "f6", migrationId: "m" }),
        keyRow(8),
      ];
      const inserted = await store.insertKeys(batch.map((row) => ({ row, balance: balance(1) })));
      expect(inserted).toEqual([true, false, false, false, true, false, true]);
      expect(await store.read("keys", "key_000003")).toBeUndefined();
      expect(await store.readBalance("key_000003", 0, 0)).toBeUndefined();
      expect((await store.findKey("digest-1"))?.keyId).toBe("key_000001");
      expect((await store.findKey("digest-8"))?.keyId).toBe("key_000008");
    });

    it("clause 5: concurrent spends never grant more than was there (A141)", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(500));
      const ref = await refOf(store, "digest-1");
      const answers = await Promise.all(Array.from({ length: 2_000 }, () => store.spendCredits(ref, 1, 0, 0)));
      expect(answers.filter((answer) => answer?.ok)).toHaveLength(500);
      expect((await store.readBalance("key_000001", 0, 0))?.remaining).toBe(0);
      expect(new Set(answers.filter((answer) => answer?.ok).map((answer) => answer?.remaining)).size).toBe(500);
    });

    it("clause 5: a cost above the balance takes nothing", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(5));
      const ref = await refOf(store, "digest-1");
      expect(await store.spendCredits(ref, 6, 0, 0)).toEqual({ ok: false, remaining: 5 });
      expect(await store.spendCredits(ref, 5, 0, 0)).toEqual({ ok: true, remaining: 0 });
      expect(await store.spendCredits(ref, 1, 0, 0)).toEqual({ ok: false, remaining: 0 });
    });

    it("clause 5: a cost that is no integer from 0 to 2^53 - 1 is refused and changes nothing", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(5));
      const ref = await refOf(store, "digest-1");
      for (const cost of [-1, NaN, Infinity, -Infinity, 1.5, 2 ** 53, undefined, null, "1"]) {
        await expect((async () => store.spendCredits(ref, cost as number, 0, 0))()).rejects.toThrow(RangeError);
      }
      expect(await store.spendCredits(ref, 1, 0, 0)).toEqual({ ok: true, remaining: 4 });
    });

    it("clause 6: a cost of 0 changes nothing and counts due refills", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(0, { amount: 10, period: 100 }));
      const ref = await refOf(store, "digest-1");
      expect(await store.spendCredits(ref, 0, 100, 0)).toEqual({ ok: true, remaining: 0 });
      expect(await store.spendCredits(ref, 0, 103, 0)).toEqual({ ok: true, remaining: 30 });
      expect(await store.spendCredits(ref, 0, 100, 0)).toEqual({ ok: true, remaining: 0 });
      expect(await store.readBalance("key_000001", 102, 0)).toEqual({ remaining: 20, period: 102, reserved: 0 });
    });

    it("clause 7: what was prepared under another calendar changes nothing, whoever asks", async () => {
      const store = await withApi();
      const daily = (count: number) => 32_000_000_000 + count;
      const monthly = (count: number) => 15_000_000_000 + count;
      await insert(store, keyRow(1, { hasCredits: true }), balance(10, { amount: 5, period: daily(20_000) }));
      const ref = await refOf(store, "digest-1");
      const request = { holder: "a", cost: 1, step: 5, size: 10, now: 0, until: 1000 };
      for (const period of [0, 20_000, monthly(680), monthly(20_000), 31_000_020_000]) {
        for (const cost of [0, 1, 100])
          expect(await store.spendCredits(ref, cost, period, 0)).toMatchObject({ ok: false, stale: true });
        expect(await store.drawCredits(ref, { ...request, period })).toMatchObject({ drawn: 0, stale: true });
        expect(await store.readBalance("key_000001", period, 0)).toEqual({
          remaining: 10,
          period: daily(20_000),
          reserved: 0,
        });
        const row = (await store.read("keys", "key_000001"))!;
        expect(await store.write([{ table: "keys", row, credits: { period, add: 7 } }])).toBe(false);
      }
      expect(await store.spendCredits(ref, 1, daily(20_001), 0)).toEqual({ ok: true, remaining: 14 });
      // A balance that is set needs no calendar to be counted by.
      const row = (await store.read("keys", "key_000001"))!;
      const credits = { period: monthly(680), remaining: 3, refill: { amount: 2, period: monthly(680) } };
      expect(await store.write([{ table: "keys", row: { ...row, generation: 1 }, credits }])).toBe(true);
      expect(await store.spendCredits(ref, 1, daily(20_001), 0)).toMatchObject({ ok: false, stale: true });
      expect(await store.spendCredits(ref, 1, monthly(681), 0)).toEqual({ ok: true, remaining: 4 });
    });

    it("clause 7: at most 400 daily and 24 monthly boundaries are refilled at once, and the rest is told once", async () => {
      const store = await withApi();
      const request = { holder: "a", cost: 1, step: 1, size: 1, now: 0, until: 1000 };
      for (const [n, calendar, most] of [
        [1, 32_000_000_000, 400],
        [2, 7_000_000_000, 24],
      ] as const) {
        for (const id of [n, n + 10])
          await insert(store, keyRow(id, { hasCredits: true }), balance(10, { amount: 1, period: calendar }));
        const ref = await refOf(store, `digest-${n}`);
        const later = calendar + most + 3;
        expect(await store.spendCredits(ref, 0, later, 0)).toEqual({ ok: true, remaining: 10 + most });
        expect(await store.spendCredits(ref, 1, later, 0)).toEqual({ ok: true, remaining: 9 + most, forfeited: 3 });
        expect(await store.spendCredits(ref, 1, later + 1, 0)).toEqual({ ok: true, remaining: 9 + most });
        const drawn = await store.drawCredits(await refOf(store, `digest-${n + 10}`), { ...request, period: later });
        expect(drawn).toMatchObject({ drawn: 1, forfeited: 3, remaining: 9 + most });
      }
    });

    it("clause 7: periods only move forward, balances stop at 2^53 - 1", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(0, { amount: 10, period: 100 }));
      await insert(
        store,
        keyRow(2, { hasCredits: true }),
        balance(Number.MAX_SAFE_INTEGER - 5, { amount: Number.MAX_SAFE_INTEGER, period: 0 }),
      );
      const ref = await refOf(store, "digest-1");
      expect(await store.spendCredits(ref, 1, 102, 0)).toEqual({ ok: true, remaining: 19 });
      expect(await store.spendCredits(ref, 1, 90, 0)).toEqual({ ok: true, remaining: 18 });
      expect(await store.readBalance("key_000001", 90, 0)).toEqual({ remaining: 18, period: 102, reserved: 0 });
      expect(await store.spendCredits(ref, 1, 102, 0)).toEqual({ ok: true, remaining: 17 });
      expect(await store.spendCredits(ref, 1, 103, 0)).toEqual({ ok: true, remaining: 26 });
      const huge = await refOf(store, "digest-2");
      expect(await store.spendCredits(huge, 1, 20_000, 0)).toEqual({
        ok: true,
        remaining: Number.MAX_SAFE_INTEGER - 1,
      });
    });

    it("clause 8: a change is seen by the next find", async () => {
      const store = await withApi();
      await insert(store, keyRow(1));
      expect((await store.findKey("digest-1"))?.enabled).toBe(true);
      const row = (await store.read("keys", "key_000001"))!;
      await store.write([{ table: "keys", row: { ...row, enabled: false } }]);
      expect((await store.findKey("digest-1"))?.enabled).toBe(false);
      const docs = (await store.read("apis", "api_1"))!;
      await store.write([{ table: "apis", row: { ...docs, enabled: false, ipAllowlist: ["10.0.0.0/8"] } }]);
      expect(await store.findKey("digest-1")).toMatchObject({ parentDisabled: true, ipAllowlists: [["10.0.0.0/8"]] });
      await store.write([
        { table: "apis", row: { ...docs, version: docs.version + 1 } },
        { table: "workspaces", row: { id: WS, version: 0, enabled: false } },
      ]);
      expect(await store.findKey("digest-1")).toMatchObject({ parentDisabled: true, ipAllowlists: [] });
    });

    it("clause 8: roles, permissions and identities reach the keys that refer to them", async () => {
      const store = await withApi();
      await store.write([
        { table: "permissions", row: permission("a.read") },
        { table: "roles", row: role("r", ["perm_a_read"]) },
        { table: "identities", row: identity("user") },
      ]);
      await insert(store, keyRow(1, { roles: ["role_r"], identityId: "id_user" }));
      expect(await store.findKey("digest-1")).toMatchObject({
        roles: ["r"],
        permissions: ["a.read"],
        identity: { externalId: "user" },
      });
      await store.write([{ table: "identities", row: identity("user", { version: 1, meta: { now: "new" } }) }]);
      expect((await store.findKey("digest-1"))?.identity?.meta).toEqual({ now: "new" });
      await store.write([{ table: "permissions", remove: "perm_a_read", version: 1 }]);
      expect((await store.findKey("digest-1"))?.permissions).toEqual([]);
      await store.write([{ table: "permissions", row: permission("a.read", { id: "perm_2" }) }]);
      expect((await store.findKey("digest-1"))?.permissions).toEqual([]);
      await store.write([{ table: "roles", remove: "role_r", version: 1 }]);
      await store.write([{ table: "identities", remove: "id_user", version: 2 }]);
      const after = await store.findKey("digest-1");
      expect(after?.roles).toEqual([]);
      expect(after && "identity" in after).toBe(false);
    });

    it("clause 10: a returned object cannot change the store, nor can one that was given", async () => {
      const store = await withApi();
      const given = keyRow(1, { meta: { deep: { list: [1] } }, permissions: [], hasCredits: true });
      await insert(store, given, balance(3));
      (given.meta as { deep: { list: number[] } }).deep.list.push(2);
      const spoil = (value: unknown): void => {
        if (typeof value !== "object" || value === null) return;
        for (const inner of Object.values(value)) spoil(inner);
        try {
          Object.assign(value, { enabled: "spoiled", 0: "spoiled" });
        } catch {
          // frozen is as good
        }
      };
      spoil(await store.findKey("digest-1"));
      spoil(await store.read("keys", given.id));
      spoil(await store.list("keys", { workspaceId: WS, limit: 5 }));
      expect(await store.findKey("digest-1")).toMatchObject({
        enabled: true,
        meta: { deep: { list: [1] } },
        permissions: [],
      });
      expect(await store.read("keys", given.id)).toMatchObject({ enabled: true, meta: { deep: { list: [1] } } });
    });

    it("clause 11: after close every call fails with STORE_CLOSED, and close again does nothing", async () => {
      const store = await withApi();
      await store.close();
      await store.close();
      const calls: (() => unknown)[] = [
        () => store.findKey("d"),
        () => store.findForeignKey("m", "d"),
        () => store.findRootKey("d"),
        () => store.adoptDigest("k", "d"),
        () => store.spendCredits("k", 1, 0, 0),
        () => store.spendCredits("k", 0, 0, 0),
        () => store.drawCredits("k", { holder: "h", cost: 1, step: 1, size: 1, period: 0, now: 0, until: 1 }),
        () => store.returnCredits("k", "h", 0, 1),
        () => store.readBalance("k", 0, 0),
        () => store.read("apis", "a"),
        () => store.readNames("roles", WS, ["r"]),
        () => store.list("keys", { workspaceId: WS, limit: 1 }),
        () => store.insertKeys([]),
        () => store.write([]),
        () => store.subscribe(() => undefined),
        () => store.pollChanges(),
      ];
      for (const call of calls) {
        const error = await (async () => call())().then(
          () => undefined,
          (thrown: unknown) => thrown,
        );
        expect(isKeystileError(error) && error.code, String(call)).toBe("STORE_CLOSED");
      }
    });

    it("clause 12: two new stores share nothing", async () => {
      const [one, two] = [await withApi(), await withApi()];
      await insert(one, keyRow(1));
      expect(await two.findKey("digest-1")).toBeUndefined();
      expect(await insert(two, keyRow(1))).toBe(true);
    });

    it("clause 13: a write is all or nothing", async () => {
      const store = await withApi();
      await insert(store, keyRow(1));
      await store.write([{ table: "roles", row: role("taken", []) }]);
      const fresh = role("new", []);
      const refused = [
        { table: "roles", row: role("taken", [], { id: "role_other" }) },
        { table: "apis", row: api({ version: 7 }) },
        { table: "apis", row: api({ version: 0 }) },
        { table: "keys", row: keyRow(9, { version: 3 }) },
        { table: "roles", remove: "role_taken", version: 9 },
        { table: "roles", remove: "role_unknown", version: 1 },
      ] as const;
      for (const write of refused) {
        expect(await store.write([{ table: "roles", row: fresh }, write]), JSON.stringify(write)).toBe(false);
        expect(await store.read("roles", fresh.id)).toBeUndefined();
      }
      expect(await store.write([{ table: "roles", row: fresh }])).toBe(true);
      expect(
        await store.write([
          { table: "roles", row: role("a", [], { id: "role_x" }) },
          { table: "roles", row: role("a", [], { id: "role_y" }) },
        ]),
      ).toBe(false);
      const row = (await store.read("keys", "key_000001"))!;
      expect(await store.write([{ table: "keys", row: { ...row, name: "first" } }])).toBe(true);
      expect(await store.write([{ table: "keys", row: { ...row, name: "second" } }])).toBe(false);
      expect((await store.read("keys", row.id))?.name).toBe("first");
      expect(await store.write([])).toBe(true);
    });

    it("clause 13: a change of a balance that has counted further than its maker saw is refused whole", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(0, { amount: 10, period: 100 }));
      const ref = await refOf(store, "digest-1");
      const { period } = (await store.readBalance("key_000001", 101, 0))!;
      const change = async (counted: number) => {
        const row = (await store.read("keys", "key_000001"))!;
        const credits = { period: 101, refillsCounted: counted, refill: { amount: 1, period: 7 } };
        return store.write([{ table: "keys", row: { ...row, name: "changed" }, credits }]);
      };
      expect(await store.spendCredits(ref, 1, 102, 0)).toEqual({ ok: true, remaining: 19 });
      expect(await change(period)).toBe(false);
      expect(await store.read("keys", "key_000001")).not.toHaveProperty("name");
      expect(await store.readBalance("key_000001", 0, 0)).toEqual({ remaining: 19, period: 102, reserved: 0 });
      expect(await change(102)).toBe(true);
      expect(await store.readBalance("key_000001", 0, 0)).toEqual({ remaining: 19, period: 7, reserved: 0 });
    });

    it("clause 13: removal removes, credits included", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(5));
      const ref = await refOf(store, "digest-1");
      expect(await store.write([{ table: "keys", remove: "key_000001", version: 1 }])).toBe(true);
      expect(await store.findKey("digest-1")).toBeUndefined();
      expect(await store.spendCredits(ref, 1, 0, 0)).toBeUndefined();
      expect(await insert(store, keyRow(2, { digest: "digest-1" }))).toBe(true);
      expect(await refOf(store, "digest-1")).not.toBe(ref);
    });

    it("a credit change counts refills, then sets or adds, then changes the calendar", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(1, { amount: 10, period: 100 }));
      const change = async (credits: object, generation = 0) => {
        const row = (await store.read("keys", "key_000001"))!;
        expect(await store.write([{ table: "keys", row: { ...row, generation }, credits: credits as never }])).toBe(
          true,
        );
      };
      await change({ period: 102, add: 4 });
      expect((await store.readBalance("key_000001", 102, 0))?.remaining).toBe(25);
      await change({ period: 102, add: -100 });
      expect((await store.readBalance("key_000001", 102, 0))?.remaining).toBe(0);
      await change({ period: 103, refill: { amount: 1, period: 0 } });
      expect((await store.readBalance("key_000001", 2, 0))?.remaining).toBe(12);
      await change({ period: 2, remaining: null }, 1);
      expect((await store.readBalance("key_000001", 50, 0))?.remaining).toBeNull();
      const ref = await refOf(store, "digest-1");
      expect(await store.spendCredits(ref, 10 ** 12, 2, 0)).toEqual({ ok: true, remaining: null });
      await change({ period: 2, remaining: 7 }, 2);
      expect(await store.spendCredits(ref, 1, 2, 0)).toEqual({ ok: true, remaining: 6 });
      await insert(store, keyRow(2));
      const unlimited = (await store.read("keys", "key_000002"))!;
      await store.write([
        { table: "keys", row: { ...unlimited, hasCredits: true }, credits: { period: 0, remaining: 9 } },
      ]);
      expect(await store.spendCredits(await refOf(store, "digest-2"), 1, 0, 0)).toEqual({ ok: true, remaining: 8 });
    });

    it("clause 14: an expired reserve comes back to an exact spend that would be refused without it, and to reads", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(1_000));
      const ref = await refOf(store, "digest-1");
      const request = { holder: "dead", cost: 1, step: 250, size: 1_000, period: 0, now: 0, until: 1_000 };
      const drawn = (await store.drawCredits(ref, request))!.drawn;
      const left = (await store.readBalance("key_000001", 0, 999))!;
      expect(left.reserved).toBeGreaterThan(0);
      expect(left.remaining! + left.reserved + drawn).toBe(1_000);
      const all = left.remaining! + left.reserved;
      expect(await store.spendCredits(ref, all, 0, 999)).toEqual({ ok: false, remaining: left.remaining });
      expect(await store.spendCredits(ref, 0, 0, 1_000)).toEqual({ ok: true, remaining: all });
      expect(await store.readBalance("key_000001", 0, 1_000)).toEqual({ remaining: all, period: 0, reserved: 0 });
      expect(await store.spendCredits(ref, all, 0, 1_000)).toEqual({ ok: true, remaining: 0 });
      expect(await store.spendCredits(ref, 1, 0, 2_000)).toEqual({ ok: false, remaining: 0 });
      // What the dead holder returns late belongs to nobody else: its reserve is gone, what it had in hand comes back.
      await store.returnCredits(ref, "dead", 0, drawn);
      expect((await store.readBalance("key_000001", 0, 2_000))?.remaining).toBe(drawn);
    });

    it("clause 13: a balance is copied as it stands when the rows are written", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(10, { amount: 5, period: 32_000_000_100 }));
      const row = keyRow(2, { hasCredits: true, generation: 1 });
      const credits = { period: 32_000_000_101, copyOf: "key_000001", refill: { amount: 5 } };
      await store.spendCredits(await refOf(store, "digest-1"), 4, 32_000_000_102, 0);
      expect(await store.write([{ table: "keys", row, credits }])).toBe(true);
      expect(await store.readBalance(row.id, 32_000_000_101, 0)).toEqual({
        remaining: 16,
        period: 32_000_000_102,
        reserved: 0,
      });
      const lost = keyRow(3, { hasCredits: true, generation: 1 });
      expect(await store.write([{ table: "keys", row: lost, credits: { ...credits, copyOf: "key_unknown" } }])).toBe(
        true,
      );
      expect((await store.readBalance(lost.id, 32_000_000_101, 0))?.remaining).toBe(0);
    });

    it("clause 14: draws never hand out more than was there, and what is given back returns", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(100));
      const ref = await refOf(store, "digest-1");
      const ask = (holder: string, cost: number, now = 0) =>
        store.drawCredits(ref, { holder, cost, step: 10, size: 40, period: 0, now, until: now + 1000 });
      let held = 0;
      for (let i = 0; i < 50; i++) held += (await ask(i % 2 ? "a" : "b", 1))?.drawn ?? 0;
      expect(held).toBeLessThanOrEqual(100);
      expect((await store.readBalance("key_000001", 0, 0))!.remaining! + held).toBeLessThanOrEqual(100);
      await store.returnCredits(ref, "a", 0, held);
      await store.returnCredits(ref, "b", 0, 0);
      expect((await store.readBalance("key_000001", 0, 0))?.remaining).toBe(100);
      expect((await ask("c", 101))?.drawn).toBe(0);
    });

    it("clause 14: an unlimited key gives whatever is asked, a key that is gone nothing", async () => {
      const store = await withApi();
      await insert(store, keyRow(1));
      const row = (await store.read("keys", "key_000001"))!;
      await store.write([{ table: "keys", row, credits: { period: 0, remaining: null } }]);
      const ref = await refOf(store, "digest-1");
      const request = { holder: "a", cost: 7, step: 10, size: 40, period: 0, now: 0, until: 1000 };
      expect(await store.drawCredits(ref, request)).toEqual({ drawn: 7, generation: 1, remaining: null });
      await store.write([{ table: "keys", remove: "key_000001", version: 2 }]);
      expect(await store.drawCredits(ref, request)).toBeUndefined();
      expect(await store.returnCredits(ref, "a", 1, 5)).toBeUndefined();
    });

    it("clause 14: the reserve of a holder that vanished comes back once it expires", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(100));
      const ref = await refOf(store, "digest-1");
      const ask = (holder: string, cost: number, now: number) =>
        store.drawCredits(ref, { holder, cost, step: 5, size: 25, period: 0, now, until: now + 1000 });
      const lost = (await ask("crashed", 1, 0))!.drawn;
      const before = (await store.readBalance("key_000001", 0, 0))!.remaining!;
      expect(before + lost).toBeLessThan(100);
      expect((await ask("other", before + 1, 999))!.drawn).toBe(0);
      expect((await ask("other", before + 1, 1000))!.drawn).toBe(before + 1);
      expect((await ask("other", 100 - lost - before - 1, 1001))!.drawn).toBe(100 - lost - before - 1);
      expect((await ask("other", 1, 5000))!.drawn).toBe(0);
    });

    it("clause 14: a set balance voids older leases (A153)", async () => {
      const store = await withApi();
      await insert(store, keyRow(1, { hasCredits: true }), balance(100));
      const ref = await refOf(store, "digest-1");
      const request = { holder: "a", cost: 1, step: 10, size: 40, period: 0, now: 0, until: 1000 };
      const drawn = (await store.drawCredits(ref, request))!;
      const row = (await store.read("keys", "key_000001"))!;
      await store.write([{ table: "keys", row: { ...row, generation: 1 }, credits: { period: 0, remaining: 50 } }]);
      expect((await store.readBalance("key_000001", 0, 0))?.remaining).toBe(50);
      await store.returnCredits(ref, "a", drawn.generation, drawn.drawn);
      expect((await store.readBalance("key_000001", 0, 0))?.remaining).toBe(50);
      expect((await store.drawCredits(ref, request))!.generation).toBe(1);
      expect((await store.findKey("digest-1"))?.generation).toBe(1);
    });

    it("clause 15: a change of an identity, a role or a permission is told, whether or not a key has it", async () => {
      const store = await withApi();
      const rows = [
        { table: "identities", row: identity("user") },
        { table: "roles", row: role("admin", []) },
        { table: "permissions", row: permission("read") },
      ] as const;
      await store.write([...rows]);
      const told: Change[] = [];
      store.subscribe((change) => told.push(change));
      for (const { table, row } of rows) {
        const { version } = (await store.read(table, row.id))!;
        expect(await store.write([{ table, remove: row.id, version } as Write])).toBe(true);
        expect(told.splice(0).filter((change) => change !== "created")).toHaveLength(1);
      }
    });

    it("clause 15: every change that a find could see is told", async () => {
      const store = await withApi();
      const told: Change[] = [];
      const stop = store.subscribe((change) => told.push(change));
      const since = () => told.splice(0);
      await insert(store, keyRow(1, { hasCredits: true }), balance(5));
      expect(since()).toEqual([{ digest: "digest-1" }]);
      await store.spendCredits(await refOf(store, "digest-1"), 1, 0, 0);
      expect(since()).toEqual([]);
      const row = (await store.read("keys", "key_000001"))!;
      await store.write([{ table: "keys", row: { ...row, enabled: false } }]);
      expect(since()).toContainEqual({ digest: "digest-1" });
      const docs = (await store.read("apis", "api_1"))!;
      await store.write([{ table: "apis", row: { ...docs, enabled: false } }]);
      expect(since()).toEqual(["all"]);
      expect(await store.write([{ table: "apis", row: docs }])).toBe(false);
      expect(since()).toEqual([]);
      await insert(store, keyRow(2, { digest: undefined as never, foreignDigest: "f", migrationId: "m" }));
      since();
      const pending = (await store.findForeignKey("m", "f"))!;
      await store.adoptDigest(pending.ref, "adopted");
      expect(since()).toEqual([{ digest: "adopted" }]);
      stop();
      await insert(store, keyRow(3));
      expect(since()).toEqual([]);
    });

    it("a pending key gains its native digest once", async () => {
      const store = await withApi();
      const { digest: _, ...rest } = keyRow(1, { foreignDigest: "f", migrationId: "m" });
      await insert(store, rest);
      const found = (await store.findForeignKey("m", "f"))!;
      expect(found.unadopted).toBe(true);
      const adopted = await Promise.all(["one", "two", "three"].map((digest) => store.adoptDigest(found.ref, digest)));
      expect(adopted).toEqual([true, false, false]);
      expect((await store.findKey("one"))?.unadopted).toBe(false);
      expect(await store.findKey("two")).toBeUndefined();
      expect((await store.findForeignKey("m", "f"))?.unadopted).toBe(false);
      const { digest: __, ...other } = keyRow(2, { foreignDigest: "g", migrationId: "m" });
      await insert(store, other);
      expect(await store.adoptDigest((await store.findForeignKey("m", "g"))!.ref, "one")).toBe(false);
    });

    it("clause 16: lists are ordered by id, start after the cursor and are bounded", async () => {
      const store = await withApi();
      await store.write([{ table: "apis", row: api({ id: "api_2" }) }]);
      await store.write([{ table: "identities", row: identity("user") }]);
      const rows = [5, 3, 1, 4, 2].map((n) => keyRow(n, n === 3 ? { identityId: "id_user" } : {}));
      await store.insertKeys([...rows, keyRow(6, { apiId: "api_2" })].map((row) => ({ row })));
      const ids = async (query: object) =>
        (await store.list("keys", { workspaceId: WS, limit: 100, ...query })).map(({ id }) => Number(id.slice(4)));
      expect(await ids({})).toEqual([1, 2, 3, 4, 5, 6]);
      expect(await ids({ apiId: "api_1", limit: 2 })).toEqual([1, 2]);
      expect(await ids({ apiId: "api_1", limit: 2, after: "key_000002" })).toEqual([3, 4]);
      expect(await ids({ apiId: "api_1", after: "key_000005" })).toEqual([]);
      expect(await ids({ apiId: "api_2" })).toEqual([6]);
      expect(await ids({ identityId: "id_user" })).toEqual([3]);
      expect(await ids({ apiId: "api_2", identityId: "id_user" })).toEqual([]);
      for (const slug of ["b.read", "a.read", "a.write", "%", "_x"])
        await store.write([{ table: "permissions", row: permission(slug, { id: `perm_${slug.length}${slug}` }) }]);
      const found = async (search: string) =>
        (await store.list("permissions", { workspaceId: WS, limit: 10, search })).map(({ slug }) => slug).sort();
      expect(await found("a.")).toEqual(["a.read", "a.write"]);
      expect(await found("%")).toEqual(["%"]);
      expect(await found("_")).toEqual(["_x"]);
      expect(await found("A.")).toEqual([]);
    });

    it("clause 16: lists leave deleted keys and APIs out, and show them again once they are not", async () => {
      const store = await withApi();
      await store.write([{ table: "identities", row: identity("user") }]);
      await store.write([{ table: "apis", row: api({ id: "api_2", deleted: true }) }]);
      const rows = Array.from({ length: 6 }, (_, i) => keyRow(i, { identityId: "id_user", deleted: i % 2 === 1 }));
      await store.insertKeys(rows.map((row) => ({ row })));
      const ids = async (query: object) =>
        (await store.list("keys", { workspaceId: WS, limit: 100, ...query })).map(({ id }) => Number(id.slice(4)));
      const queries = [{}, { apiId: "api_1" }, { identityId: "id_user" }, { apiId: "api_1", identityId: "id_user" }];
      for (const query of queries) expect(await ids(query)).toEqual([0, 2, 4]);
      for (const query of queries) expect(await ids({ ...query, limit: 2, after: "key_000000" })).toEqual([2, 4]);
      for (const [n, deleted] of [
        [2, true],
        [3, false],
      ] as const) {
        const row = (await store.read("keys", keyRow(n).id))!;
        await store.write([{ table: "keys", row: { ...row, deleted } }]);
      }
      for (const query of queries) expect(await ids(query)).toEqual([0, 3, 4]);
      expect((await store.findKey("digest-3"))?.identity?.externalId).toBe("user");
      await store.write([{ table: "keys", remove: keyRow(1).id, version: 1 }]);
      expect(await insert(store, keyRow(9, { digest: "digest-1" }))).toBe(true);
      expect((await store.list("apis", { workspaceId: WS, limit: 10 })).map(({ id }) => id)).toEqual(["api_1"]);
    });

    it("clause 2: many names at once are looked up as one by one", async () => {
      const store = await withApi();
      const names = [
        "a",
        "A",
        "é",
        "e\u0301",
        "日本",
        "'; DROP TABLE x;--",
        '"',
        "\\",
        "a b",
        "%",
        "_",
        "1",
        "null",
        "🔑",
      ];
      const rows = names.map((name, i) => role(name, [`perm_${i}`], { id: `role_${i}`, description: name }));
      for (const row of rows) expect(await store.write([{ table: "roles", row }])).toBe(true);
      await store.write([{ table: "roles", row: role("b", [], { id: "role_other", workspaceId: "ws_2" }) }]);
      const asked = [...names, "b", "unknown", "É", ...names, ""];
      const found = await store.readNames("roles", WS, asked);
      expect([...found].sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name))).toEqual(
        rows.map((row) => ({ ...row, version: 1 })),
      );
      for (const name of names) expect(await store.readNames("roles", WS, [name])).toMatchObject([{ name }]);
    });

    it("clause 17: names of one workspace are unknown in another", async () => {
      const store = await withApi();
      await store.write([{ table: "roles", row: role("admin", []) }]);
      expect(await store.readNames("roles", "ws_2", ["admin"])).toEqual([]);
      expect(
        await store.write([{ table: "roles", row: role("admin", [], { id: "role_2", workspaceId: "ws_2" }) }]),
      ).toBe(true);
      expect(await store.readNames("roles", "ws_2", ["admin"])).toMatchObject([{ id: "role_2" }]);
      expect(await store.list("roles", { workspaceId: "ws_2", limit: 10 })).toHaveLength(1);
      expect(await store.list("keys", { workspaceId: "ws_2", limit: 10 })).toEqual([]);
    });

    it("clause 18: deleted keys, and keys of deleted APIs, are not found", async () => {
      const store = await withApi();
      await store.insertKeys([1, 2].map((n) => ({ row: keyRow(n, { foreignDigest: `f${n}`, migrationId: "m" }) })));
      const row = (await store.read("keys", "key_000001"))!;
      await store.write([{ table: "keys", row: { ...row, deleted: true } }]);
      expect(await store.findKey("digest-1")).toBeUndefined();
      expect(await store.findForeignKey("m", "f1")).toBeUndefined();
      expect((await store.findKey("digest-2"))?.keyId).toBe("key_000002");
      await store.write([{ table: "apis", row: api({ version: 1, deleted: true }) }]);
      expect(await store.findKey("digest-2")).toBeUndefined();
      expect(await store.findForeignKey("m", "f2")).toBeUndefined();
    });

    it("clause 16: overrides are listed by namespace, whatever stands in their identifiers", async () => {
      const store = await withApi();
      const rows = [
        override("ns_1", "a", { id: "ov_2" }),
        override("ns_1", "ns_2 a", { id: "ov_1" }),
        override("ns_2", "a", { id: "ov_4" }),
        override("ns_2", "", { id: "ov_3" }),
        override("ns_1", "a", { id: "ov_5", workspaceId: "ws_2" }),
      ];
      for (const row of rows) expect(await store.write([{ table: "overrides", row }]), row.id).toBe(true);
      expect(await store.write([{ table: "overrides", row: override("ns_1", "a", { id: "ov_6" }) }])).toBe(false);
      const ids = async (query: object) =>
        (await store.list("overrides", { workspaceId: WS, limit: 100, ...query })).map(({ id }) => id);
      expect(await ids({})).toEqual(["ov_1", "ov_2", "ov_3", "ov_4"]);
      expect(await ids({ namespaceId: "ns_1" })).toEqual(["ov_1", "ov_2"]);
      expect(await ids({ namespaceId: "ns_2", limit: 1 })).toEqual(["ov_3"]);
      expect(await ids({ namespaceId: "ns_2", after: "ov_3" })).toEqual(["ov_4"]);
      expect(await ids({ namespaceId: "ns" })).toEqual([]);
      expect(await ids({ namespaceId: "ns_1", workspaceId: "ws_2" })).toEqual(["ov_5"]);
      expect(await store.readNames("overrides", WS, ["ns_2 a", "ns_1 ns_2 a", "ns_9 a"])).toMatchObject([
        { id: "ov_4" },
        { id: "ov_1" },
      ]);
    });

    it("clause 19: a root key is found by its digest in any workspace, as it stands", async () => {
      const store = await withApi();
      await insert(store, keyRow(1));
      const row = rootKey(1, { workspaceId: "ws_2", permissions: ["api.*.verify_key"], expires: 1, enabled: false });
      expect(await store.write([{ table: "rootKeys", row }])).toBe(true);
      expect(await store.findRootKey("root-digest-1")).toEqual({ ...row, version: 1 });
      expect(await store.write([{ table: "rootKeys", row: { ...row, version: 1, enabled: true } }])).toBe(true);
      expect((await store.findRootKey("root-digest-1"))?.enabled).toBe(true);
      // Neither is the other, and digests match exactly.
      expect(await store.findKey("root-digest-1")).toBeUndefined();
      expect(await store.findRootKey("digest-1")).toBeUndefined();
      for (const digest of ["ROOT-digest-1", "root-digest-1 ", "root-digest-", "%"])
        expect(await store.findRootKey(digest)).toBeUndefined();
      expect(await store.write([{ table: "rootKeys", remove: row.id, version: 2 }])).toBe(true);
      expect(await store.write([{ table: "rootKeys", remove: row.id, version: 2 }])).toBe(false);
      expect(await store.findRootKey("root-digest-1")).toBeUndefined();
    });

    it("clause 19: a digest belongs to one root key, whatever the workspace", async () => {
      const store = await withApi();
      expect(await store.write([{ table: "rootKeys", row: rootKey(1) }])).toBe(true);
      const same = { digest: "root-digest-1" };
      expect(await store.write([{ table: "rootKeys", row: rootKey(2, same) }])).toBe(false);
      expect(await store.write([{ table: "rootKeys", row: rootKey(2, { ...same, workspaceId: "ws_2" }) }])).toBe(false);
      expect(await store.write([{ table: "rootKeys", row: rootKey(2, { workspaceId: "ws_2" }) }])).toBe(true);
      expect(
        await store.write([{ table: "rootKeys", row: rootKey(2, { ...same, workspaceId: "ws_2", version: 1 }) }]),
      ).toBe(false);
      expect((await store.findRootKey("root-digest-1"))?.id).toBe("root_1");
      expect((await store.findRootKey("root-digest-2"))?.id).toBe("root_2");
      expect(await store.write([{ table: "rootKeys", remove: "root_1", version: 1 }])).toBe(true);
      expect(await store.write([{ table: "rootKeys", row: rootKey(3, { ...same, workspaceId: "ws_2" }) }])).toBe(true);
      expect((await store.findRootKey("root-digest-1"))?.id).toBe("root_3");
    });

    it("clause 19: a change of a root key is notified as its digest, old and new; namespaces and overrides are not notified", async () => {
      const store = await withApi();
      const told: Change[] = [];
      store.subscribe((change) => told.push(change));
      const since = () =>
        new Set(told.splice(0).map((change) => (typeof change === "object" ? change.digest : change)));
      await store.write([{ table: "rootKeys", row: rootKey(1) }]);
      expect(since()).toEqual(new Set(["root-digest-1"]));
      await store.write([{ table: "rootKeys", row: rootKey(1, { version: 1, enabled: false }) }]);
      expect(since()).toEqual(new Set(["root-digest-1"]));
      await store.write([{ table: "rootKeys", row: rootKey(1, { version: 2, digest: "root-digest-9" }) }]);
      expect(since()).toEqual(new Set(["root-digest-1", "root-digest-9"]));
      expect(await store.write([{ table: "rootKeys", row: rootKey(1, { version: 1 }) }])).toBe(false);
      expect(since()).toEqual(new Set());
      await store.write([{ table: "rootKeys", remove: "root_1", version: 3 }]);
      expect(since()).toEqual(new Set(["root-digest-9"]));
      const namespace = { id: "ns_1", workspaceId: WS, version: 0, name: "mails", createdAt: NOW };
      await store.write([{ table: "namespaces", row: namespace }]);
      await store.write([{ table: "namespaces", row: { ...namespace, version: 1, name: "letters" } }]);
      await store.write([{ table: "overrides", row: override("ns_1", "a") }]);
      await store.write([{ table: "overrides", row: override("ns_1", "a", { version: 1, limit: 9 }) }]);
      await store.write([
        { table: "migrations", row: { id: "mig_1", workspaceId: WS, version: 0, algorithm: "sha256" } },
      ]);
      await store.write([
        { table: "migrations", row: { id: "mig_1", workspaceId: WS, version: 1, algorithm: "sha512" } },
      ]);
      expect(since()).toEqual(new Set());
    });

    it("hostile A181: text that looks like SQL is only text", async () => {
      const store = await withApi();
      const nasty = ["'; DROP TABLE keystile_keys;--", '"', "\\\\", "$1", "?", "%s", "@x", ":x"];
      for (const [i, text] of nasty.entries()) {
        expect(await store.write([{ table: "identities", row: identity(text, { id: `id_${i}` }) }])).toBe(true);
        expect(await insert(store, keyRow(i, { name: text, digest: text, meta: { [text]: text } }))).toBe(true);
        expect(await store.findKey(text)).toMatchObject({ name: text, meta: { [text]: text } });
        expect(await store.readNames("identities", WS, [text])).toMatchObject([{ externalId: text }]);
      }
    });
  });
}
