/** Searching: a key's text never gets into an address. And what a caller may not see is named with its right. */
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../src/index.js";
import { client } from "./client.js";
import { NOW, seed } from "./support.js";

async function signedIn(permissions?: readonly string[]) {
  const seeded = await seed();
  const keyring = createKeyring(seeded.store, { clock: () => NOW });
  const browser = client(seeded.store);
  await browser.signIn(permissions === undefined ? seeded.rootKey : (await keyring.createRootKey({ permissions })).key);
  return { ...seeded, browser, keyring };
}

describe("console: a search", () => {
  it.each(["/keys", "/owners", "/roles", "/audit"])(
    "%s: by the text of a key leads to that key, by POST alone",
    async (page) => {
      const { browser, texts, keys } = await signedIn();
      const { text } = await browser.get(page);
      expect(text).toContain(`<form method="post" action="${page}" role="search"`);
      const field = page === "/audit" ? "id" : "search";
      const sent = await browser.submit(page, page, { [field]: ` ${texts["Mobile app"]} ` });
      expect([sent.status, sent.headers.get("location")]).toEqual([303, `/keys/${keys["Mobile app"]}?notice=found`]);
    },
  );

  it("by the text of a key that nobody finds goes nowhere: neither into an address nor into the page", async () => {
    const { browser, texts, keyring, apiId } = await signedIn();
    const { key } = await createKeyring((await seed()).store).createRootKey({ permissions: ["api.*.read_key"] });
    const other = (await signedIn(["rbac.*.read_role"])).browser;
    for (const [who, page, secret] of [
      [browser, "/keys", key],
      [other, "/roles", texts["Mobile app"] ?? ""],
    ] as const) {
      const sent = await who.submit(page, page, { search: secret });
      expect([sent.status, sent.headers.get("location")]).toEqual([200, null]);
      expect(sent.text).toContain("No key has this text");
      expect(sent.text).not.toContain(secret);
    }
    // What merely looks like one is searched for as ever: an id of Firebase has 28 letters and digits.
    await keyring.createKey({ apiId, externalId: "Xk3abCd9EfGh2JkLmN4pQrStUvWx" });
    const sent = await browser.submit("/owners", "/owners", { search: "Xk3abCd9EfGh2JkLmN4pQrStUvWx" });
    expect(sent.headers.get("location")).toBe("/owners?search=Xk3abCd9EfGh2JkLmN4pQrStUvWx");
  });

  it("is sent as often as one likes, with all its filters, and leads to an address without the proof of the form", async () => {
    const { browser } = await signedIn();
    for (let i = 0; i < 2; i++) {
      const sent = await browser.submit("/keys", "/keys", { search: "mobile", state: "active", apiId: "", order: "" });
      expect(sent.headers.get("location")).toBe("/keys?search=mobile&state=active");
    }
    expect((await browser.submit("/keys", "/keys", { search: " " })).headers.get("location")).toBe("/keys");
    expect((await browser.post("/keys", { search: "mobile" })).status).toBe(403);
  });
});

describe("console: what a caller may not see", () => {
  const TOLD = [
    "api.*.read_key",
    "api.*.read_api",
    "api.*.read_analytics",
    "identity.*.read_identity",
    "workspace.*.read_audit",
  ];

  it("is no entry of the menu, and is named with the right that would show it", async () => {
    const { browser, apiId } = await signedIn(["api.*.read_key"]);
    const { text } = await browser.get("/");
    for (const path of ["/keys", "/owners", "/roles", "/audit"]) expect(text).not.toContain(`href="${path}"`);
    const words = text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
    expect(words).toContain("Not shown");
    expect(words).toContain("needs one of api.*.read_key , api.&lt;api_id&gt;.read_key ; and api.*.read_api");
    expect((await browser.get("/keys")).text).toContain("and api.*.read_api");
    const one = (await signedIn(["identity.acme.read_identity"])).browser;
    expect((await one.get("/")).text).not.toContain('href="/owners"');
    expect(apiId).toBeDefined();
  });

  it("is nothing of the overview for the root key that the documents tell to make", async () => {
    const { browser, keys } = await signedIn(TOLD);
    const { text } = await browser.get("/");
    for (const shown of ["Expire within 30 days", "Recent changes", 'href="/keys"', 'href="/owners"', "Last 30 days"])
      expect(text).toContain(shown);
    for (const page of ["/", "/owners/acme", `/keys/${keys["Mobile app"]}`])
      expect((await browser.get(page)).text).not.toContain("Not shown");
  });
});
