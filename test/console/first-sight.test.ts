/** What a person takes from a page at first sight: it must not lead astray. */
import { expect, it } from "vitest";
import { createKeyring } from "../../src/index.js";
import { client, hiddenOf } from "./client.js";
import { NOW, seed } from "./support.js";

const wordsOf = (text: string) => text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

async function signedIn() {
  const seeded = await seed();
  const browser = client(seeded.store);
  await browser.signIn(seeded.rootKey);
  const keyring = createKeyring(seeded.store, { clock: () => NOW, actor: "maria" });
  return { ...seeded, browser, keyring, words: async (path: string) => wordsOf((await browser.get(path)).text) };
}

it("a key that may be used from some addresses is explained from one of them, until another is asked for", async () => {
  const { browser, keys, words } = await signedIn();
  const page = `/keys/${keys["Mobile app"]}`;
  expect((await browser.get(page)).text).toContain('name="address" value="203.0.113.0"');
  expect(await words(page)).toContain("VALID This call would pass");
  expect(await words(`${page}?query=documents.write`)).toContain("INSUFFICIENT_PERMISSIONS This call");
  for (const address of ["", "198.51.100.1"])
    expect(await words(`${page}?address=${address}`)).toContain("FORBIDDEN This call would be refused");
});

it("what expires soon has the keys that are used up too", async () => {
  const { words } = await signedIn();
  expect(await words("/")).toMatch(/Expire within 30 days Key Owner Expires Trial .* Mobile app/);
});

it("the audit trail names keys and owners, each with a link, and says what was done in plain words", async () => {
  const { browser, apiId, keyring, keys } = await signedIn();
  await keyring.createKey({ apiId, name: "Hooli 1", externalId: "hooli" });
  await keyring.rerollKey({ keyId: keys["Trial"] ?? "", expiration: 0 });
  await keyring.deleteIdentity({ identity: "globex" });
  const { text } = await browser.get("/audit?actorSearch=maria");
  const lines = wordsOf(text.slice(text.indexOf("<tbody"))).split("maria");
  expect(lines[1]).toContain("Delete identity");
  expect(lines[1]).toMatch(/id_\w{22}/);
  expect(lines[2]).toMatch(/Rotate key.*Trial/);
  expect(lines.slice(3).join()).toMatch(/Create key.*(hooli.*Hooli 1|Hooli 1.*hooli)/s);
  expect(text).toContain('href="/audit?operation=rerollKey">Rotate key');
});

it("a plan by the month begins on the first, unless another day is chosen", async () => {
  const { browser, keyring } = await signedIn();
  const sent = { remaining: "10000", interval: "monthly", amount: "10000" };
  const { text } = await browser.get("/owners/globex/plan");
  const [, day = ""] = /name="refillDay"[^>]* value="(\d*)"/.exec(text) ?? [];
  await browser.post("/owners/globex/plan", { ...hiddenOf(text, "/owners/globex/plan"), ...sent, refillDay: day });
  const { credits } = await keyring.getIdentity({ identity: "globex" });
  expect(credits).toMatchObject({ remaining: 10_000, refill: { interval: "monthly", refillDay: 1 } });
});

it("once all keys of an owner are stopped, the way leads back to the owner, who may still be enabled", async () => {
  const { browser } = await signedIn();
  const { text } = await browser.get("/keys/stop?owner=acme");
  const done = await browser.post("/keys/stop/disable", hiddenOf(text, "/keys/stop/disable"));
  expect(done.text).toContain('href="/owners/acme"');
  expect(wordsOf(done.text)).toContain("made for acme later work, unless the owner is disabled too");
});
