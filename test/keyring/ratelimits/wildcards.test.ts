/** Overrides with `*`: what they stand for, which goes first, their bound, and that every change applies everywhere. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRatelimits } from "../../../src/keyring/ratelimits/create-ratelimits.js";
import { matches } from "../../../src/keyring/ratelimits/wildcards.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { runs } from "../../runs.js";
import { failure, fault } from "../support.js";

const STORES = [
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(":memory:")],
] as const;
const check = (identifier: string, namespace = "api") => ({
  namespace,
  identifier,
  limit: 10,
  duration: 60_000,
  cost: 0,
});
const override = (identifier: string, limit: number) => ({ namespace: "api", identifier, limit, duration: 60_000 });

describe("matches", () => {
  it("agrees with a naive matcher, and is linear", () => {
    const naive = (pattern: string, text: string): boolean => {
      if (pattern === "") return text === "";
      if (pattern[0] !== "*") return pattern[0] === text[0] && text !== "" && naive(pattern.slice(1), text.slice(1));
      return naive(pattern.slice(1), text) || (text !== "" && naive(pattern, text.slice(1)));
    };
    const text = (letters: string[], maxLength: number) =>
      fc.array(fc.constantFrom(...letters), { maxLength }).map((all) => all.join(""));
    const pair = fc.tuple(text(["a", "b", "*", "aa", "ab"], 8), text(["a", "b", "ab", "aab"], 8));
    fc.assert(
      fc.property(pair, ([pattern, given]) => {
        expect(matches(pattern, given)).toBe(naive(pattern, given));
      }),
      { numRuns: runs(2_000) },
    );
    const began = performance.now();
    for (let i = 0; i < 100; i++) expect(matches(`*${"a".repeat(20_000)}b*`, "a".repeat(40_000))).toBe(false);
    // Naive search would take 800 million steps for each.
    expect(performance.now() - began).toBeLessThan(10_000);
  });
});

describe.each(STORES)("wildcard overrides on the %s store", (_name, open) => {
  it("apply to what they stand for, in limit and multiLimit, each identifier with its own bucket", async () => {
    const ratelimits = createRatelimits(open());
    const { overrideId } = await ratelimits.setOverride(override("premium_*", 100));
    await ratelimits.setOverride(override("*_admin", 50));
    await ratelimits.setOverride(override("a*b*c", 40));
    expect(await ratelimits.limit(check("premium_1"))).toMatchObject({ limit: 100, overrideId });
    const { limits } = await ratelimits.multiLimit(
      ["premium_", "x_admin", "a__b__c", "abc", "premium", "Premium_1", "acb", "xpremium_1"].map((id) => check(id)),
    );
    expect(limits.map(({ limit }) => limit)).toEqual([100, 50, 40, 40, 10, 10, 10, 10]);
    expect((await ratelimits.limit(check("premium_1", "elsewhere"))).limit).toBe(10);
    await ratelimits.limit({ ...check("premium_1"), cost: 60 });
    expect((await ratelimits.limit(check("premium_1"))).remaining).toBe(40);
    expect((await ratelimits.limit(check("premium_2"))).remaining).toBe(100);
  });

  it("an exact one goes first, then the one with most literal characters, then the smaller id", async () => {
    let now = 1_000_000;
    // Later ids are greater.
    const ratelimits = createRatelimits(open(), { clock: () => now++ });
    const limitOf = async (id: string) => (await ratelimits.limit(check(id))).limit;
    await ratelimits.setOverride(override("*", 1));
    await ratelimits.setOverride(override("user_*", 2));
    await ratelimits.setOverride(override("*_gold", 3));
    await ratelimits.setOverride(override("us*ld", 4));
    expect([await limitOf("x"), await limitOf("user_1"), await limitOf("user_gold")]).toEqual([1, 2, 2]);
    await ratelimits.setOverride(override("user_*gold", 5));
    await ratelimits.setOverride(override("user_gold", 6));
    expect([await limitOf("user_gold"), await limitOf("user_xgold")]).toEqual([6, 5]);
    await ratelimits.deleteOverride({ namespace: "api", identifier: "user_gold" });
    expect(await limitOf("user_gold")).toBe(5);
  });

  it("are read, listed, replaced and deleted by their text, and a change applies at once", async () => {
    const ratelimits = createRatelimits(open());
    const at = { namespace: "api", identifier: "p_*" };
    const { overrideId } = await ratelimits.setOverride(override("p_*", 100));
    expect(await ratelimits.setOverride(override("p_*", 200))).toEqual({ overrideId });
    expect((await ratelimits.limit(check("p_1"))).limit).toBe(200);
    const row = { overrideId, identifier: "p_*", limit: 200, duration: 60_000 };
    expect(await ratelimits.getOverride(at)).toEqual(row);
    expect((await ratelimits.listOverrides({ namespace: "api" })).data).toEqual([row]);
    expect(await fault(ratelimits.getOverride({ ...at, identifier: "p_1" }))).toBe("NOT_FOUND 404");
    expect(await fault(ratelimits.deleteOverride({ ...at, identifier: "p_1" }))).toBe("NOT_FOUND 404");
    await ratelimits.deleteOverride(at);
    expect(await ratelimits.limit(check("p_1"))).toMatchObject({ limit: 10 });
    expect(await fault(ratelimits.getOverride(at))).toBe("NOT_FOUND 404");
    const again = await ratelimits.setOverride(override("p_*", 7));
    expect(again.overrideId).not.toBe(overrideId);
    expect(await ratelimits.limit(check("p_1"))).toMatchObject({ limit: 7, overrideId: again.overrideId });
  });

  it("are bounded in number and length, also when set at once, and one that is deleted makes room", async () => {
    const ratelimits = createRatelimits(open());
    const set = (i: number) => ratelimits.setOverride(override(`u${i}_*`, i));
    const settled = await Promise.allSettled(Array.from({ length: 105 }, (_, i) => set(i)));
    expect(settled.filter(({ status }) => status === "fulfilled")).toHaveLength(100);
    const error = await failure(set(1_000));
    expect(error.errors).toEqual([
      {
        location: "body.identifier",
        message: "would be override 101 with * of this namespace, which may have 100",
        fix: "delete one that is not needed, or use another namespace",
      },
    ]);
    await ratelimits.setOverride(override("plain", 1));
    await set(0);
    await ratelimits.deleteOverride({ namespace: "api", identifier: "u0_*" });
    await set(1_000);
    expect((await ratelimits.limit(check("u1000_x"))).limit).toBe(1_000);
    const long = (i: number) => ({ ...override(`${String(i).padStart(500, "x")}*`, 1), namespace: "long" });
    for (let i = 0; i < 16; i++) await ratelimits.setOverride(long(i));
    expect((await failure(ratelimits.setOverride(long(16)))).errors[0]?.message).toContain("8192 characters together");
  });
});

describe("wildcard overrides beside their namespace", () => {
  it("one that the namespace does not list is deleted all the same, and others stay", async () => {
    const store = memoryStore();
    const ratelimits = createRatelimits(store);
    await ratelimits.setOverride(override("q_*", 5));
    const { overrideId } = await ratelimits.setOverride(override("p_*", 3));
    const [namespace] = await store.readNames("namespaces", "ws_default", ["api"]);
    const wildcards = namespace!.wildcards!.filter(({ id }) => id !== overrideId);
    await store.write([{ table: "namespaces", row: { ...namespace!, wildcards } }]);
    await ratelimits.deleteOverride({ namespace: "api", identifier: "p_*" });
    expect((await ratelimits.listOverrides({ namespace: "api" })).data.map(({ identifier }) => identifier)).toEqual([
      "q_*",
    ]);
    expect((await ratelimits.limit(check("q_1"))).limit).toBe(5);
  });

  it("of a namespace that is gone: NOT_FOUND, and nothing is written", async () => {
    const inner = memoryStore();
    let isGone = false;
    const ratelimits = createRatelimits({
      ...inner,
      readMany: (table, ids) =>
        isGone && table === "namespaces" ? ids.map(() => undefined) : inner.readMany(table, ids),
    });
    await ratelimits.setOverride(override("p_*", 3));
    isGone = true;
    expect(await fault(ratelimits.setOverride(override("q_*", 3)))).toBe("NOT_FOUND 404");
    isGone = false;
    expect((await ratelimits.listOverrides({ namespace: "api" })).data).toHaveLength(1);
  });
});

describe("wildcard overrides of another process", () => {
  it("apply from its next check on, and the bound holds over both", async () => {
    const folder = mkdtempSync(join(tmpdir(), "keystile-"));
    const [one, other] = [sqliteStore(join(folder, "a.db")), sqliteStore(join(folder, "a.db"))];
    try {
      const [mine, theirs] = [createRatelimits(one), createRatelimits(other)];
      expect((await theirs.limit(check("p_1"))).limit).toBe(10);
      await mine.setOverride(override("p_*", 3));
      expect((await theirs.limit(check("p_1"))).limit).toBe(3);
      await theirs.deleteOverride({ namespace: "api", identifier: "p_*" });
      expect((await mine.limit(check("p_1"))).limit).toBe(10);
      const both = Array.from({ length: 104 }, (_, i) =>
        (i % 2 === 0 ? mine : theirs).setOverride(override(`${i}*`, 1)),
      );
      expect((await Promise.allSettled(both)).filter(({ status }) => status === "fulfilled")).toHaveLength(100);
    } finally {
      await Promise.all([one.close(), other.close()]);
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
