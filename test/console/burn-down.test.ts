/** What an owner had at the end of each day of the month, and will have at the pace of two weeks. */
import { describe, expect, it } from "vitest";
import { createAnalytics, createKeyring, createVerifier } from "../../src/index.js";
import { client } from "./client.js";
import { NOW, seed } from "./support.js";

const DAY = 86_400_000;

describe("console: credits of a month by day", () => {
  it("past days show what was left, days to come what is left at the pace of two weeks", async () => {
    const { store, rootKey, apiId } = await seed();
    const keyring = createKeyring(store, { clock: () => NOW - 6 * DAY });
    await keyring.createIdentity({ externalId: "umbrella", credits: { remaining: 1_000 } });
    const { key } = await keyring.createKey({ apiId, externalId: "umbrella" });
    const capped = await keyring.createKey({ apiId, externalId: "umbrella", credits: { remaining: 500 } });
    for (const [days, presented] of [
      [6, key],
      [3, capped.key],
      [1, key],
    ] as const) {
      const verifier = createVerifier(store, { clock: () => NOW - days * DAY, analytics: true });
      await verifier.verify({ key: presented, credits: { cost: 100 } });
      await verifier.close();
    }
    const browser = client(store);
    await browser.signIn(rootKey);
    const { text } = await browser.get("/owners/umbrella");
    const shown = /<h2>Credits this month<\/h2>.*?<\/section>/s.exec(text)?.[0] ?? "";
    const bars = [...shown.matchAll(/<rect class="ks-(\w+)"[^>]*><title>2026-11-(\d\d): ([\d,]+)</g)];
    const leftOn = Object.fromEntries(
      bars.map(([, kind, day, left]) => [day!, [kind, Number(left!.replace(",", ""))]]),
    );
    expect(bars).toHaveLength(30);
    expect([leftOn["17"], leftOn["18"], leftOn["20"]].map((one) => one?.[1])).toEqual([0, 900, 900]);
    expect([leftOn["21"], leftOn["23"], leftOn["24"]]).toEqual([
      ["valid", 800],
      ["valid", 700],
      ["valid", 700],
    ]);
    const { perDay, emptyAt } = await createAnalytics(store, { clock: () => NOW }).forecast({ externalId: "umbrella" });
    // 200 in five days: the cap has the same calls.
    expect([perDay, emptyAt]).toEqual([40, NOW + (700 / 40) * DAY]);
    expect([leftOn["25"], leftOn["30"]]).toEqual([
      ["track", 700 - 60],
      ["track", 700 - 260],
    ]);
    expect(shown.replace(/<[^>]*>/g, "").replace(/\s+/g, " ")).toContain(
      "700 left now; 300 used this month. 40 a day were spent",
    );
  });

  it("without counts, or rights, or with more than a page adds up there is none, and the rest of the page is there", async () => {
    const { store, rootKey } = await seed();
    const browser = client(store, { analytics: createAnalytics(store, { maxRows: 1 }) });
    await browser.signIn(rootKey);
    const { status, text } = await browser.get("/owners/globex");
    expect(status).toBe(200);
    expect(text).not.toContain("Credits this month");
  });
});
