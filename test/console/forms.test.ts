/** What a form says when it is wrong, and what is kept of it. */
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../src/index.js";
import { client, filledOf } from "./client.js";
import { NOW, seed } from "./support.js";

async function signedIn() {
  const seeded = await seed();
  const browser = client(seeded.store);
  await browser.signIn(seeded.rootKey);
  const keyring = createKeyring(seeded.store, { clock: () => NOW });
  return { ...seeded, browser, keyring };
}

/** The fields that say a problem, and the field that the page opens at. */
const problemsOf = (text: string) => [...text.matchAll(/id="ks-(\w+)-problem"/g)].map(([, name]) => name).sort();
const focusOf = (text: string) =>
  [...text.matchAll(/<(\w+)[^>]*? autofocus/g)].map(([tag]) => / name="(\w+)"/.exec(tag)?.[1] ?? tag);

describe("console: a form with mistakes", () => {
  it("says all of them in one round, each beside its field, and opens at the first", async () => {
    const { browser, apiId } = await signedIn();
    const wrong = { apiId, expires: "soon", meta: "{", remaining: "many", ratelimits: "no numbers", interval: "daily" };
    const { status, text } = await browser.submit("/keys/new", "/keys/new", wrong);
    expect([status, problemsOf(text)]).toEqual([400, ["amount", "expires", "meta", "ratelimits", "remaining"]]);
    expect(focusOf(text)).toEqual(["expires"]);
    expect((await browser.get("/keys/new")).text).not.toContain("autofocus");
  });

  it("says beside what was emptied without the tick what else is wrong", async () => {
    const { browser, keys } = await signedIn();
    const key = `/keys/${keys["Mobile app"]}/edit`;
    const ofKey = await browser.submit(key, key, {
      ...{ externalId: "", expires: "", ratelimits: "", ipAllowlist: "" },
      ...{ meta: "{", permissions: "a b" },
    });
    expect(problemsOf(ofKey.text)).toEqual([
      "expires",
      "externalId",
      "ipAllowlist",
      "meta",
      "permissions",
      "ratelimits",
    ]);
    const owner = "/owners/acme/edit";
    const ofOwner = await browser.submit(owner, owner, { ratelimits: "", expires: "soon", meta: "[]" });
    expect([ofOwner.status, problemsOf(ofOwner.text)]).toEqual([400, ["expires", "meta", "ratelimits"]]);
    const plan = "/owners/acme/plan";
    await browser.submit(plan, plan, { interval: "daily", amount: "5", rollover: "1", now: "nothing" });
    const ofPlan = await browser.submit(plan, plan, { interval: "daily", amount: "x", rollover: "", now: "nothing" });
    expect([ofPlan.status, problemsOf(ofPlan.text)]).toEqual([400, ["amount", "rollover"]]);
  });

  it("shows what was not found beside the field that named it", async () => {
    const { browser, apiId } = await signedIn();
    const { status, text } = await browser.submit("/keys/new", "/keys/new", { apiId, roles: "nobody" });
    expect([status, problemsOf(text), focusOf(text)]).toEqual([404, ["roles"], ["roles"]]);
    expect(text).toContain("The role was not found");
  });

  it("opens at what is wrong as a whole, where no field is", async () => {
    const { browser } = await signedIn();
    const { text } = await browser.submit("/owners/new", "/owners/new", { externalId: "acme" });
    expect([problemsOf(text), focusOf(text)]).toEqual([[], [expect.stringContaining('role="alert" tabindex="-1"')]]);
  });
});

describe("console: plans and metadata in forms", () => {
  it("a grant has a refill of its own", async () => {
    const { browser, keyring } = await signedIn();
    const path = "/owners/acme/grant";
    const refill = { interval: "weekly", amount: "10", refillDay: "2", timeZone: "Europe/Berlin", rollover: "5" };
    const bad = await browser.submit(path, path, { ...refill, credits: "50", amount: "x" });
    expect([bad.status, problemsOf(bad.text)]).toEqual([400, ["amount"]]);
    expect((await browser.submit(path, path, { ...refill, credits: "50", grantId: "pack" })).status).toBe(303);
    const { grants } = await keyring.listGrants({ identity: "acme" });
    const kept = { interval: "weekly", amount: 10, refillDay: 2, timeZone: "Europe/Berlin", rollover: 5 };
    expect(grants).toMatchObject([{ grantId: "pack", amount: 50, refill: kept }]);
    expect((await browser.get("/owners/acme")).text).toContain("10 every Tuesday in Europe/Berlin, at most 5 stay");
  });

  it("the metadata of an owner are made, shown and changed", async () => {
    const { browser, keyring } = await signedIn();
    const meta = async () => (await keyring.getIdentity({ identity: "umbrella" })).meta;
    await browser.submit("/owners/new", "/owners/new", {
      externalId: "umbrella",
      ratelimits: " ",
      meta: '{"plan": "pro"}',
    });
    expect(await meta()).toEqual({ plan: "pro" });
    expect((await browser.submit("/owners/new", "/owners/new", { externalId: "blank", meta: " \n" })).status).toBe(303);
    expect((await browser.get("/owners/umbrella")).text).toContain("Metadata");
    const path = "/owners/umbrella/edit";
    expect((await browser.get(path)).text).toContain("&quot;plan&quot;: &quot;pro&quot;");
    const limits = { ratelimits: "calls 5/60", expires: "" };
    await browser.submit(path, path, { ...limits, meta: '{"plan": "max"}' });
    expect(await meta()).toEqual({ plan: "max" });
    await browser.submit(path, path, { ...limits, meta: "" });
    expect(await meta()).toBeUndefined();
  });

  const REFILL = { interval: "monthly", refillDay: "1", timeZone: "", rollover: "", now: "nothing" };
  const LIMITS = { ratelimits: "requests 1000/60 auto", expires: "", meta: "" };
  it.each<[string, string, string, Record<string, string>, Record<string, string>]>([
    [
      "the plan of an owner",
      "/owners/acme",
      "/plan",
      { ...REFILL, amount: "9000" },
      { ...REFILL, amount: "5000", refillDay: "20" },
    ],
    [
      "the plan of a key",
      "Mobile app",
      "/plan",
      { interval: "daily", amount: "10", now: "nothing" },
      { interval: "hourly", amount: "100", now: "nothing" },
    ],
    ["first credits of an owner", "/owners/globex", "/plan", { remaining: "1000" }, { remaining: "5" }],
    [
      "limits of an owner",
      "/owners/acme",
      "/edit",
      { ...LIMITS, ratelimits: "requests 5/60" },
      { ...LIMITS, meta: "{}" },
    ],
    [
      "the expiry of an owner",
      "/owners/acme",
      "/edit",
      { ...LIMITS, expires: "2027-01-01T00:00" },
      { ...LIMITS, meta: "{}" },
    ],
    ["a key", "Mobile app", "/edit", { name: "A", ipAllowlist: "", confirm: "on" }, { name: "B", confirm: "on" }],
    [
      "a role",
      "reader",
      "",
      { permissions: "documents.list" },
      { permissions: "documents.list\ndocuments.read\nmore.read" },
    ],
  ])("of two who change %s, the second does not undo the first", async (_what, of, way, first, second) => {
    const { browser, keyring, keys } = await signedIn();
    const { data } = await keyring.listRoles({});
    const to = keys[of] !== undefined ? `/keys/${keys[of]}` : of;
    const path = (of === "reader" ? `/roles/${data.find(({ name }) => name === of)?.id}` : to) + way;
    const older = filledOf((await browser.get(path)).text, path);
    expect((await browser.submit(path, path, first)).status).toBe(303);
    const saved = (await browser.get(path)).text.replaceAll(/value="(form_\w+)"/g, "");
    for (let twice = 0, form = older; twice < 2; twice++) {
      const { status, text } = await browser.post(path, { ...form, ...second });
      expect([status, text]).toEqual([400, expect.stringContaining("changed meanwhile")]);
      expect((await browser.get(path)).text.replaceAll(/value="(form_\w+)"/g, "")).toBe(saved);
      // The same form again, which shows what was typed, is no newer.
      form = filledOf(text, path);
    }
  });

  it.each([
    ["a key", "Mobile app", "/edit", "meta"],
    ["an owner", "/owners/acme", "/edit", "ratelimits"],
    ["a plan", "/owners/acme", "/plan", "timeZone"],
  ])("of %s, a form that lost a field empties nothing", async (_what, of, way, lost) => {
    const { browser, keyring, keys } = await signedIn();
    const path = (keys[of] === undefined ? of : `/keys/${keys[of]}`) + way;
    const refill = { interval: "daily", amount: 5, timeZone: "Europe/Berlin" } as const;
    await keyring.changePlan({ identity: "acme", refill, now: "nothing" });
    const sent = filledOf((await browser.get(path)).text, path);
    const { [lost]: value, ...rest } = sent;
    expect(value).not.toBe("");
    const { status, text } = await browser.post(path, rest);
    expect([status, text]).toEqual([400, expect.stringContaining("did not arrive")]);
    expect((await browser.post(path, sent)).status).toBe(303);
    expect((await keyring.getIdentity({ identity: "acme" })).credits?.refill).toEqual(refill);
  });

  it("the forms that edit a key and an owner lead to its plan and grants", async () => {
    const { browser, keys } = await signedIn();
    for (const to of ["/owners/acme", `/keys/${keys["Mobile app"]}`]) {
      const { text } = await browser.get(`${to}/edit`);
      for (const way of ["plan", "grant"]) expect(text).toContain(`href="${to}/${way}"`);
    }
  });
});
