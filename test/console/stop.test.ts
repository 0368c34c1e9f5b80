/** Stopping many keys: those that are selected in the list, and all of an owner. */
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../src/index.js";
import { client, hiddenOf } from "./client.js";
import { NOW, seed } from "./support.js";

async function signedIn(permissions?: readonly string[]) {
  const seeded = await seed();
  const keyring = createKeyring(seeded.store, { clock: () => NOW });
  const browser = client(seeded.store);
  await browser.signIn(permissions === undefined ? seeded.rootKey : (await keyring.createRootKey({ permissions })).key);
  const enabled = async () =>
    (await keyring.searchKeys({})).data.filter((key) => key.enabled).map((key) => key.name ?? "nameless");
  return { ...seeded, keyring, browser, enabled };
}
const wordsOf = (text: string) => text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

describe("console: many keys", () => {
  it("are selected in the list, counted before they are disabled, and can be enabled again", async () => {
    const { browser, keys, enabled } = await signedIn();
    const { text } = await browser.get("/keys");
    expect(text.match(/<input type="checkbox" name="key" value="key_\w+" form="ks-stop"/g)).toHaveLength(7);
    expect(text).toContain('<form id="ks-stop" method="get" action="/keys/stop"');
    const page = `/keys/stop?key=${keys["Mobile app"]}&key=${keys["Old laptop"]}&key=key_none`;
    const shown = await browser.get(page);
    expect(wordsOf(shown.text)).toMatch(/Stop 2 keys .*Enabled now: 1.*acme/);
    const before = await enabled();
    const done = await browser.post("/keys/stop/disable", hiddenOf(shown.text, "/keys/stop/disable"));
    expect([done.status, wordsOf(done.text)]).toEqual([200, expect.stringContaining("2 keys are disabled")]);
    expect((await enabled()).sort()).toEqual(before.filter((name) => name !== "Mobile app").sort());
  });

  it("are revoked once their number is typed; one that is gone by then is looked at again", async () => {
    const { browser, keys, keyring } = await signedIn();
    const page = `/keys/stop?key=${keys["Mobile app"]}&key=${keys["Trial"]}`;
    const hidden = hiddenOf((await browser.get(page)).text, "/keys/stop/revoke");
    const send = (typed: string) => browser.post("/keys/stop/revoke", { ...hidden, once: typed, typed });
    const wrong = await send("3");
    expect([wrong.status, wrong.text]).toEqual([400, expect.stringContaining('id="ks-typed-problem"')]);
    await keyring.deleteKey({ keyId: keys["Trial"] ?? "" });
    const late = await send("2");
    expect([late.status, late.text]).toEqual([400, expect.stringContaining("there are 1 key by now")]);
    const again = hiddenOf(late.text, "/keys/stop/revoke");
    const done = await browser.post("/keys/stop/revoke", { ...again, typed: "1" });
    expect(done.text).toContain("1 key is revoked");
    await expect(keyring.getKey({ keyId: keys["Mobile app"] ?? "" })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("of an owner are stopped from its page, however many there are, and no key of another", async () => {
    const { browser, keyring, apiId, enabled } = await signedIn();
    for (let i = 0; i < 1_020; i++) await keyring.createKey({ apiId, externalId: "acme" });
    const before = (await keyring.searchKeys({ externalId: "globex" })).data.filter((key) => key.enabled).length;
    expect((await browser.get("/owners/acme")).text).toContain(
      'href="/keys/stop?owner=acme">Stop only the keys it has now',
    );
    const { text } = await browser.get("/keys/stop?owner=acme");
    expect(text).toContain("Disable 1,022 keys");
    const done = await browser.post("/keys/stop/disable", hiddenOf(text, "/keys/stop/disable"));
    expect(done.text).toContain("1,022 keys are disabled");
    expect(wordsOf(text)).toContain("The first 1,000 of them");
    const left = await keyring.searchKeys({ externalId: "acme", state: "active", limit: 100 });
    expect(left.data).toEqual([]);
    expect((await keyring.searchKeys({ externalId: "globex" })).data.filter((key) => key.enabled)).toHaveLength(before);
    expect(await enabled()).not.toContain("Mobile app");
  });

  it("are stopped where the caller may, and the others are named with why not", async () => {
    const world = await signedIn();
    const permissions = ["api.*.read_key", "api.*.read_api", `api.${world.apiId}.update_key`];
    const { key } = await world.keyring.createRootKey({ permissions });
    const browser = client(world.store);
    await browser.signIn(key);
    const page = `/keys/stop?key=${world.keys["Mobile app"]}&key=${world.keys["Nightly export"]}`;
    const { text } = await browser.get(page);
    expect(text).not.toContain("Revoke 2 keys");
    const done = await browser.post("/keys/stop/disable", hiddenOf(text, "/keys/stop/disable"));
    expect(wordsOf(done.text)).toMatch(/1 key is disabled.*Not stopped/);
    expect(done.text).toContain(world.keys["Nightly export"]);
    expect(wordsOf((await browser.get("/keys/stop")).text)).toContain("No key is selected");
    const revoker = (await signedIn(["api.*.read_key", "api.*.read_api", "api.*.delete_key"])).browser;
    expect((await revoker.get("/keys")).text).not.toContain('type="checkbox"');
    expect((await revoker.get("/keys/stop?owner=acme")).text).not.toContain("Revoke");
    expect((await revoker.get("/owners/acme")).text).not.toContain("Stop only the keys it has now");
    const reader = (await signedIn(["api.*.read_key", "api.*.read_api"])).browser;
    expect((await reader.get("/keys")).text).not.toContain('type="checkbox"');
    expect((await reader.get("/owners/acme")).text).not.toContain("Stop only the keys it has now");
  });
});
