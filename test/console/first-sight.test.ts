/** What a person takes from a page at first sight: it must not lead astray. */
import { expect, it } from "vitest";
import { createKeyring, createVerifier } from "../../src/index.js";
import { duration } from "../../src/view/format.js";
import { client, filledOf, hiddenOf } from "./client.js";
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
  expect(lines[1]).toContain("Delete owner");
  expect(lines[1]).toMatch(/id_\w{22}/);
  expect(lines[2]).toMatch(/Rotate key.*Trial/);
  expect(lines.slice(3).join()).toMatch(/Create key.*(hooli.*Hooli 1|Hooli 1.*hooli)/s);
  // A link there looks as if it led to more about the change.
  expect(text).not.toContain(">Rotate key</a>");
});

it("a plan by the month begins on the first, unless another day is chosen", async () => {
  const { browser, keyring } = await signedIn();
  const sent = { remaining: "10000", interval: "monthly", amount: "10000" };
  const { text } = await browser.get("/owners/globex/plan");
  const [, day = ""] = /name="refillDay"[^>]* value="(\d*)"/.exec(text) ?? [];
  await browser.post("/owners/globex/plan", { ...filledOf(text, "/owners/globex/plan"), ...sent, refillDay: day });
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

it("a key whose calls are refused says so first, and is asked what the last refused call asked for", async () => {
  const { browser, store, texts, keys, words } = await signedIn();
  const verifier = createVerifier(store, { clock: () => NOW - 60_000, analytics: true });
  for (let i = 0; i < 3; i++)
    await verifier.verify({
      key: texts["Nightly export"] ?? "",
      permissions: "exports.run AND admin",
      tags: ["path=/a"],
    });
  await verifier.close();
  const page = await words(`/keys/${keys["Nightly export"]}`);
  expect(page).toMatch(
    /3 calls were refused in 24 hours\. The last one 1 min ago 2026-11-24 11:59:00 UTC : INSUFF.* exports\.run AND admin/,
  );
  expect(page).toContain("INSUFFICIENT_PERMISSIONS This call would be refused");
  expect(page).toMatch(/admin missing/);
  expect(page).toContain("3 of these, from 11:59:00 on");
  // Its own permissions and those of its role come before what is asked.
  expect(page).toMatch(/Its own exports\.run Role reader documents\.list documents\.read .*Would a call pass now\?/);
  expect(await words(`/keys/${keys["Nightly export"]}?query=exports.run`)).toContain("VALID This call would pass");
  const owner = (await browser.get("/owners/acme")).text;
  expect(owner).toMatch(/>Refused by key<.*Nightly export.*<div>3</s);
  expect(await words(`/keys/${keys["Partner integration"]}`)).toContain("It asks for no permission.");
});

it("a query is asked of a key by its name, and what is no address is not asked", async () => {
  const { keys, words } = await signedIn();
  const asked = await words("/query?key=Partner&query=documents.write+OR+admin");
  expect(asked).toMatch(/Partner integration .* globex satisfied Every check/);
  expect(await words("/query?key=Nightly&query=documents.write")).toMatch(/Nightly export .* acme not satisfied/);
  const page = await words(`/keys/${keys["Mobile app"]}?address=x`);
  expect(page).toContain("&quot;x&quot; is not an IP address.");
  expect(page).not.toContain("FORBIDDEN");
});

it("credits of the first day have no pace, and what a key has beside its owner is said", async () => {
  const { browser, store, texts, keys, words } = await signedIn();
  const verifier = createVerifier(store, { clock: () => NOW - 60_000, analytics: true });
  await verifier.verify({ key: texts["Mobile app"] ?? "", credits: { cost: 7 } }, { clientAddress: "203.0.113.7" });
  await verifier.verify({ key: texts["Trial"] ?? "" });
  await verifier.close();
  const owner = await words("/owners/acme");
  expect(owner).toContain("7 used this month. Too little was spent yet to tell a pace.");
  expect(owner).toContain("2026-11-30: not known yet");
  expect(owner).not.toContain("0 a day");
  const mobile = await words(`/keys/${keys["Mobile app"]}`);
  expect(mobile).toContain("Too little was spent yet");
  expect(mobile).toContain("30 credits of the key and 4,193 of the owner left, takes 1 from both.");
  expect(mobile).toContain("A call takes from both: from these, and from those of its owner, acme .");
  expect((await browser.get(`/keys/${keys["Nightly export"]}`)).text).not.toMatch(/action="[^"]*credits"/);
  const statement = await words("/owners/acme/statement");
  expect(statement).toMatch(/All days spent by day below −7/);
  expect(statement).toMatch(/Mobile app .{0,40}inside the balance/);
  expect(await words("/owners/initech")).toContain("None: each of its keys has credits of its own");
});

it("an owner is disabled on a page that says what that does; a key of one says that it does not work", async () => {
  const { browser, apiId, keyring, words } = await signedIn();
  expect((await browser.get("/owners/globex")).text).not.toContain(
    '<form method="post" action="/owners/globex/disable"',
  );
  expect(await words("/owners/globex/disable")).toContain("Every key of globex , also those that are made later");
  const { headers } = await browser.submit("/owners/globex/disable", "/owners/globex/disable");
  expect(await words(headers.get("location") ?? "")).toContain("all its keys, also new ones, are refused");
  const made = await browser.submit("/keys/new", "/keys/new", { apiId, externalId: "globex" });
  expect(wordsOf(made.text)).toContain("It cannot be used yet: Owner disabled");
  const [, to = ""] = /href="(\/keys\/key_[^"]*)"/.exec(made.text) ?? [];
  expect(await words(to)).toContain("Owner disabled of globex");
  expect((await keyring.getIdentity({ identity: "globex" })).enabled).toBe(false);
  expect(await words("/keys/stop?owner=globex")).toContain("made for globex later work, unless the owner is disabled");
});

it("what ends soon is a click away for a week, and says in which order it stands", async () => {
  const { browser } = await signedIn();
  const { text } = await browser.get("/");
  expect(text).toContain('href="/keys?ends=7"');
  expect(text).toContain('<form method="post" action="/keys" role="search"');
  expect((await browser.get("/keys?ends=30")).text).toContain('<option value="expires" selected>Expiring soonest');
  expect((await browser.get("/keys")).text).toContain('<option value="" selected>Newest');
});

it("a length of time that is few days has its hours, so that 7 days and more are no 7 days", () => {
  const [hour, day] = [3_600_000, 86_400_000];
  expect([7 * day + 5 * hour, 2 * day - 1, 7 * day, 12 * day + hour, 90_000, 999].map(duration)).toEqual([
    "7 d 5 h",
    "1 d 23 h",
    "7 d",
    "12 d",
    "1 min 30 s",
    "999 ms",
  ]);
});

it("the operations of the audit trail are chosen from a list, and none is missing that the console does", async () => {
  const { browser, keyring, words } = await signedIn();
  await keyring.updateIdentityCredits({ identity: "acme", operation: "increment", value: 5 });
  const { text } = await browser.get("/audit");
  for (const { operation } of (await keyring.listAudit()).data)
    if (!/^createRootKey$/.test(operation)) expect(text).toContain(`<option value="${operation}">`);
  expect(await words("/audit?operation=updateIdentityCredits")).toMatch(/Update owner credits credits.* \+5 now 4,205/);
});

it("a root key knows itself in the list", async () => {
  const { words } = await signedIn();
  expect(await words("/root-keys")).toMatch(/Operator root\S*… You/);
});
