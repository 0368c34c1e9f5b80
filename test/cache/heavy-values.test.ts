import { expect, it } from "vitest";
import { type Heavy, HeavyValues } from "../../src/cache/key-cache.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { createVerifier } from "../../src/verify/verifier.js";

it("HeavyValues: beyond the bytes the least recently used goes; short ones are not counted", () => {
  const values = new HeavyValues<string>(6_000);
  expect(values.hold("short", 1_024)).toBe("short");
  const [a, b, c] = ["a", "b", "c"].map((value) => values.hold(value, 2_000) as Heavy<string>);
  expect([a, b, c].map((heavy) => values.use(heavy!))).toEqual(["a", "b", "c"]);
  values.use(a!);
  const d = values.hold("d", 3_000) as Heavy<string>;
  expect([a, b, c, d].map((heavy) => values.use(heavy!))).toEqual(["a", undefined, undefined, "d"]);
  const whole = values.hold("more than all", 6_001) as Heavy<string>;
  expect([a, d, whole].map((heavy) => values.use(heavy!))).toEqual([undefined, undefined, undefined]);
  values.clear();
  expect(values.use(values.hold("e", 6_000) as Heavy<string>)).toBe("e");
});

it.each(["tag", "digest"] as const)(
  "cache by %s: keys with much metadata push out each other, and no others",
  async (by) => {
    const store = memoryStore();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "docs" });
    const make = async (size: number) => (await keyring.createKey({ apiId, meta: { text: "x".repeat(size) } })).key;
    const short = await Promise.all(Array.from({ length: 50 }, () => make(10)));
    const long = await Promise.all(Array.from({ length: 20 }, () => make(10_000)));
    let finds = 0;
    const findKey = store.findKey.bind(store);
    const counted = {
      ...store,
      findKey(digest: string) {
        finds++;
        return findKey(digest);
      },
    };
    // 100 KiB: about ten of the long ones.
    const verifier = createVerifier(counted, { cache: { size: 100, by } });
    const findsOf = async (keys: readonly string[]) => {
      finds = 0;
      for (const key of keys) expect((await verifier.verify({ key })).code).toBe("VALID");
      return finds;
    };
    expect(await findsOf(short)).toBe(50);
    expect(await findsOf(long)).toBe(20);
    expect(await findsOf(long.slice(-9))).toBe(0);
    expect(await findsOf(long.slice(0, 9))).toBe(9);
    expect(await findsOf(short)).toBe(0);
    await verifier.close();
  },
);
