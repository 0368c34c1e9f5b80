/** What pages show: an empty store, long names, charts, counters, and keys that were replaced. */
import { describe, expect, it } from "vitest";
import { allPermissions } from "../../src/cli/database/database.js";
import { createKeyring, createVerifier, memoryStore } from "../../src/index.js";
import { client, hiddenOf } from "./client.js";
import { NOW, seed } from "./support.js";

const wordsOf = (text: string) => text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

describe("console: an empty store", () => {
  it("leads from an API over its first key to the line to paste, and then shows the overview", async () => {
    const store = memoryStore();
    const keyring = createKeyring(store, { clock: () => NOW });
    const { key: rootKey } = await keyring.createRootKey({ permissions: allPermissions() });
    const browser = client(store);
    await browser.signIn(rootKey);
    const first = (await browser.get("/")).text;
    expect(wordsOf(first)).toMatch(/There are no keys yet.*1\. Make an API.*2\. Create a key.*3\. Try it/);
    const made = await browser.submit("/", "/apis/new", { name: "documents" });
    const [to = ""] = [made.headers.get("location")].flatMap((one) => one ?? []);
    expect(to).toMatch(/^\/keys\/new\?apiId=api_/);
    const second = (await browser.get("/")).text;
    expect(second).toContain(`href="${to}"`);
    expect(second).toContain(`apiKey(verifier, { apiId: &quot;${to.split("=")[1]}&quot; })`);
    const { text } = await browser.get(to);
    const [, apiId = ""] = /<option value="([^"]*)" selected>documents</.exec(text) ?? [];
    const { text: shown } = await browser.post("/keys/new", { ...hiddenOf(text, "/keys/new"), apiId });
    const [, key = ""] = /id="ks-secret" value="([^"]*)"/.exec(shown) ?? [];
    expect(shown).toContain(`curl -H &quot;Authorization: Bearer ${key}&quot;`);
    expect(wordsOf((await browser.get("/")).text)).toContain("Recent changes");
  });

  it("is an overview like any other for who can make nothing", async () => {
    const store = memoryStore();
    const permissions = ["api.*.read_key", "api.*.read_api", "api.*.create_key"];
    const { key } = await createKeyring(store, { clock: () => NOW }).createRootKey({ permissions });
    const browser = client(store);
    await browser.signIn(key);
    expect(wordsOf((await browser.get("/")).text)).not.toContain("Make an API");
  });
});

describe("console: what is seen", () => {
  it("a long name and a long id in a table have all of their text as title", async () => {
    const { store, rootKey, apiId } = await seed();
    const long = "n".repeat(200);
    await createKeyring(store, { clock: () => NOW }).createKey({ apiId, name: long, externalId: `${long}\u202E` });
    const browser = client(store);
    await browser.signIn(rootKey);
    const { text } = await browser.get("/keys");
    expect(text).toContain(`<bdi class="ks-name" title="${long}">`);
    expect(text).toContain(`title="${long}␣U+202E␣"`);
    expect(text).toContain('<bdi class="ks-name">Mobile app</bdi>');
  });

  it("a chart has the highest value of each row, and says of each day what was counted", async () => {
    const { store, rootKey, texts } = await seed();
    const verifier = createVerifier(store, { clock: () => NOW, analytics: true });
    for (const permissions of ["documents.read", "documents.read", "nothing"])
      await verifier.verify({ key: texts["Partner integration"] ?? "", permissions });
    await verifier.close();
    const browser = client(store);
    await browser.signIn(rootKey);
    const { text } = await browser.get("/");
    expect(text).toContain('<p class="ks-axis" aria-hidden="true"><span><i>2</i><i>0</i></span><span><i>1</i>');
    expect(text).toContain("<title>2026-11-24, VALID 2, INSUFFICIENT_PERMISSIONS 1</title>");
    expect(text).toContain("<title>2026-11-23, VALID 0</title>");
  });

  it("health shows the counters that counted, and names the others", async () => {
    const { store, rootKey, texts } = await seed();
    const verifier = createVerifier(store, { clock: () => NOW });
    await verifier.verify({ key: texts["Partner integration"] ?? "" });
    const browser = client(store, { verifier });
    await browser.signIn(rootKey);
    const { text } = await browser.get("/health");
    expect(text).not.toContain("<dd>0</dd>");
    expect(wordsOf(text)).toMatch(/Zero: [a-z ,]+\./);
    await verifier.close();
  });

  it("a key that was replaced looks so in its overlap, on its page and in lists", async () => {
    const { store, rootKey, keys } = await seed();
    const keyring = createKeyring(store, { clock: () => NOW });
    await keyring.rerollKey({ keyId: keys["Billing worker"] ?? "", expiration: 3_600_000 });
    const browser = client(store);
    await browser.signIn(rootKey);
    for (const page of ["/keys?search=Billing", `/keys/${keys["Billing worker"]}`])
      expect((await browser.get(page)).text).toContain("Replaced, still valid");
  });

  it("is black on white on paper, whatever the screen has", async () => {
    const { text } = await client(memoryStore()).get("/console.css");
    const paper = /@media print\{:root\{([^}]*)\}/.exec(text)?.[1] ?? "";
    expect(paper).toContain("color-scheme:light;--bg:#fff");
    expect(text.indexOf("@media print")).toBeGreaterThan(text.indexOf("prefers-color-scheme:dark"));
  });
});
