import { expect, it } from "vitest";
import { createKeyring, createVerifier, forOwner, memoryStore } from "../../../src/index.js";
import { withoutAnalytics } from "../../../src/lib/guards/powers.js";

const DAY = 86_400_000;
const START = Date.UTC(2026, 10, 3);

it("usage: the owner's own, in this API, by day or as asked for", async () => {
  let now = START + DAY / 2;
  const clock = () => now;
  const store = memoryStore();
  const keyring = createKeyring(store, { clock });
  const [{ apiId }, other] = [await keyring.createApi({ name: "docs" }), await keyring.createApi({ name: "other" })];
  const credits = { remaining: 10 };
  const mine = await keyring.createKey({ apiId, externalId: "ada", credits });
  const keys = [mine, await keyring.createKey({ apiId, externalId: "bob" })];
  keys.push(await keyring.createKey({ apiId: other.apiId, externalId: "ada" }));
  for (const cost of [4, 9]) {
    const verifier = createVerifier(store, { clock, analytics: true });
    for (const { key } of keys) await verifier.verify({ key, credits: { cost } });
    await verifier.close();
    now += DAY;
  }
  const ada = forOwner(keyring, "ada", { apiId });
  const days = [
    { time: START, count: 1, spent: 4 },
    { time: START + DAY, count: 1, spent: 0 },
  ];
  expect(await ada.usage()).toEqual(days);
  expect(await ada.usage({ by: "day", from: START + DAY })).toEqual(days.slice(1));
  expect(await ada.usage({ by: ["outcome", "keyId"] })).toEqual([
    { keyId: mine.keyId, outcome: "USAGE_EXCEEDED", count: 1, spent: 0 },
    { keyId: mine.keyId, outcome: "VALID", count: 1, spent: 4 },
  ]);
  now += 40 * DAY;
  expect(await ada.usage()).toEqual([]);
  for (const [query, location] of [
    [{ by: "week" }, "body.by"],
    [{ by: "day", from: "x" }, "body.from"],
    [{ by: "day", where: { externalId: ["bob"] } }, "body"],
  ] as const)
    await expect(ada.usage(query as never)).rejects.toMatchObject({ code: "BAD_REQUEST", errors: [{ location }] });
});

it("usage: a store that counts nothing says so", async () => {
  const store = memoryStore();
  const lacking = { ...store, powers: { ...store.powers, analytics: false }, ...withoutAnalytics };
  const ada = forOwner(createKeyring(lacking), "ada", { apiId: "api_1" });
  await expect(ada.usage()).rejects.toMatchObject({ code: "STORE_POWER_MISSING" });
});
