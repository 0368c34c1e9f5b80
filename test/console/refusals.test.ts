/** Why calls were refused: by hour and code, and of a key the last ones with what decided. */
import { describe, expect, it } from "vitest";
import { createKeyring, createVerifier } from "../../src/index.js";
import { client } from "./client.js";
import { NOW, seed } from "./support.js";

const HOUR = 3_600_000;
const wordsOf = (text: string) => text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
/** What the section says, without the rest of its page. */
const sectionOf = (text: string) => /<h2>Refused in .*?<\/section>/.exec(text)?.[0] ?? "";

/** Calls that are refused for every reason, three hours ago and now. */
async function refused() {
  const seeded = await seed();
  const { store, texts, keys } = seeded;
  const keyring = createKeyring(store, { clock: () => NOW });
  await keyring.updateKey({
    ...{ keyId: keys["Partner integration"] ?? "", credits: { remaining: 1 } },
    ratelimits: [{ name: "requests", limit: 1, duration: 60_000, autoApply: true }],
  });
  const [partner, laptop, mobile] = ["Partner integration", "Old laptop", "Mobile app"].map(
    (name) => texts[name] ?? "",
  );
  const inHour = async (
    at: number,
    calls: (verify: ReturnType<typeof createVerifier>["verify"]) => Promise<unknown>,
  ) => {
    const verifier = createVerifier(store, { clock: () => at, analytics: true });
    await calls(verifier.verify);
    await verifier.close();
  };
  await inHour(NOW - 3 * HOUR, async (verify) => {
    for (let i = 0; i < 2; i++) await verify({ key: partner ?? "", permissions: "admin.read", tags: ["path=/a"] });
    await verify({ key: partner ?? "", credits: { cost: 5 } });
    await verify({ key: laptop ?? "" });
    await verify({ key: mobile ?? "", permissions: "documents.read" }, { clientAddress: "198.51.100.9" });
    await verify({ key: mobile ?? "" }, {});
  });
  await inHour(NOW - 1_000, async (verify) => {
    for (let i = 0; i < 3; i++) await verify({ key: partner ?? "", credits: { cost: 0 } });
  });
  await keyring.updateIdentity({ identity: "globex", enabled: false });
  await inHour(NOW - 500, async (verify) => void (await verify({ key: partner ?? "" })));
  return seeded;
}

describe("console: refusals", () => {
  it("of a key are counted by hour and code, and the last ones say what decided", async () => {
    const { store, rootKey, keys } = await refused();
    const browser = client(store);
    await browser.signIn(rootKey);
    const shown = async (name: string) => sectionOf((await browser.get(`/keys/${keys[name]}`)).text);
    const partner = await shown("Partner integration");
    const words = wordsOf(partner);
    expect(words).toMatch(/2026-11-24 11:00 .*RATE_LIMITED 2.*2026-11-24 09:00 .*INSUFFICIENT_PERMISSIONS 2/);
    for (const decided of [
      "Its owner was disabled.",
      "The limit requests : 0 of 1 per min left.",
      "The key had 1 credit left.",
      "The query admin.read . Explain it now",
      "path=/a",
    ])
      expect(words).toContain(decided);
    expect(partner).toContain(`href="/keys/${keys["Partner integration"]}?query=admin.read"`);
    expect(wordsOf(await shown("Old laptop"))).toContain("DISABLED The key was disabled.");
    const mobile = wordsOf(await shown("Mobile app"));
    for (const decided of ["The address 198.51.100.9 , which no allow-list has.", "The call had no address."])
      expect(mobile).toContain(decided);
    expect(wordsOf(await shown("Billing worker"))).toContain("No call was refused.");
  });

  it("of an owner are counted; a week is one click away, and refusals before the day are in it alone", async () => {
    const { store, rootKey } = await refused();
    const later = client(store, { clock: () => NOW + 48 * HOUR });
    await later.signIn(rootKey);
    const { text } = await later.get("/owners/globex");
    expect(wordsOf(sectionOf(text))).toContain("No call was refused.");
    expect(text).toContain('href="/owners/globex?refused=7">Last 7 days');
    const week = wordsOf(sectionOf((await later.get("/owners/globex?refused=7")).text));
    expect(week).toMatch(/Refused in 7 days.*DISABLED 1.*RATE_LIMITED 2/);
    expect(week).toContain("Last 24 hours");
  });

  it("are for who may read counts of the API", async () => {
    const { store, apiId, keys } = await refused();
    const keyring = createKeyring(store, { clock: () => NOW });
    const as = async (...permissions: string[]) => {
      const { key } = await keyring.createRootKey({
        permissions: ["api.*.read_key", "api.*.read_api", ...permissions],
      });
      const browser = client(store, { clientAddress: () => undefined });
      await browser.signIn(key);
      return async (name: string) => {
        const { status, text } = await browser.get(`/keys/${keys[name]}`);
        expect(status).toBe(200);
        return sectionOf(text) !== "";
      };
    };
    const [none, one] = [await as(), await as(`api.${apiId}.read_analytics`)];
    expect([await none("Mobile app"), await one("Mobile app"), await one("Nightly export")]).toEqual([
      false,
      true,
      false,
    ]);
  });
});
