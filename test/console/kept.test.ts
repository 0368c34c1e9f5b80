/** What was typed into a form that could not be taken: after a session that ended, and while the store is locked. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, describe, expect, it } from "vitest";
import { createKeyring, memoryStore, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { client, filledOf, hiddenOf } from "./client.js";
import { NOW, seed } from "./support.js";

const decode = (text: string) => text.replaceAll("&quot;", '"').replaceAll("&amp;", "&");
const keptIn = (text: string) => decode(hiddenOf(text, "/sign-in")["kept"] ?? "");

describe("console: a session that ends in a form", () => {
  async function ended() {
    const seeded = await seed(memoryStore());
    let now = NOW;
    const browser = client(seeded.store, { clock: () => now });
    await browser.signIn(seeded.rootKey);
    const hidden = hiddenOf((await browser.get("/owners/new")).text, "/owners/new");
    now += 31 * 60_000;
    const keyring = createKeyring(seeded.store);
    return { ...seeded, browser, hidden, keyring, again: (kept: string) => ({ key: seeded.rootKey, kept }) };
  }
  const TYPED = {
    externalId: "umbrella",
    ratelimits: "requests 10/1\nslow 5/60",
    meta: '{"a": "&"}',
    interval: "weekly",
  };

  it("keeps what was typed through the sign-in, also one that fails, and does nothing until it is sent again", async () => {
    const { browser, hidden, keyring, rootKey } = await ended();
    const asked = await browser.post("/owners/new", { ...hidden, ...TYPED });
    expect([asked.status, hiddenOf(asked.text, "/sign-in")["to"]]).toEqual([403, "/owners/new"]);
    expect(asked.text).toContain("Your session has ended");
    const wrong = await browser.post("/sign-in", { to: "/owners/new", kept: keptIn(asked.text), key: "root_wrong" });
    expect([wrong.status, keptIn(wrong.text)]).toEqual([403, keptIn(asked.text)]);
    const shown = await browser.post("/sign-in", { to: "/owners/new", kept: keptIn(wrong.text), key: rootKey });
    expect(shown.status).toBe(200);
    for (const text of ["What you sent last was not taken", 'value="umbrella"', "requests 10/1\nslow 5/60</textarea>"])
      expect(shown.text).toContain(text);
    expect(shown.text).toContain('<option value="weekly" selected>');
    await expect(keyring.getIdentity({ identity: "umbrella" })).rejects.toMatchObject({ code: "NOT_FOUND" });
    const sent = { ...hiddenOf(shown.text, "/owners/new"), ...TYPED, interval: "" };
    expect((await browser.post("/owners/new", sent)).status).toBe(303);
    expect((await keyring.getIdentity({ identity: "umbrella" })).meta).toEqual({ a: "&" });
  });

  it("keeps no key, and nothing of a search or beyond its bound", async () => {
    const { browser, hidden, texts } = await ended();
    const secret = texts["Mobile app"] ?? "";
    const asked = await browser.post("/owners/new", { ...hidden, ...TYPED, externalId: secret });
    expect(asked.text).not.toContain(secret);
    expect(keptIn(asked.text)).toContain("slow+5%2F60");
    expect(keptIn(asked.text)).not.toMatch(/csrf/);
    const long = await browser.post("/owners/new", { ...hidden, externalId: "x".repeat(13_000) });
    expect([long.status, long.headers.get("location")]).toEqual([303, "/sign-in?to=%2Fowners%2Fnew"]);
    for (const page of ["/keys/find", "/keys", "/nowhere"]) {
      const search = await browser.post(page, { ...hidden, key: "other", search: "other" });
      expect([page, search.status, search.headers.get("location")]).toEqual([page, 303, "/sign-in"]);
    }
  });

  const CREDITS = "/owners/acme/credits";
  it.each([
    ["a change of credits", "/owners/acme", CREDITS, { operation: "increment", value: "7" }],
    ["a grant", "/owners/acme/grant", "/owners/acme/grant", { credits: "7", grantId: "" }],
    ["a change of the plan", "/owners/acme/plan", "/owners/acme/plan", { amount: "6000", now: "difference" }],
  ])("%s that was made is not made again, by the same console or after a restart", async (_what, page, path, more) => {
    const seeded = await seed(memoryStore());
    const keyring = createKeyring(seeded.store);
    let browser = client(seeded.store);
    await browser.signIn(seeded.rootKey);
    const sent = { ...filledOf((await browser.get(page)).text, path), ...more };
    expect((await browser.post(path, sent)).status).toBe(303);
    const before = await keyring.getBalance({ identity: "acme" });
    expect(before.remaining).toBeGreaterThan(4_200);
    for (const restarts of [false, true]) {
      await browser.post("/sign-out", hiddenOf((await browser.get("/")).text, "/sign-out"));
      if (restarts) browser = client(seeded.store);
      const asked = await browser.post(path, sent);
      const shown = await browser.post("/sign-in", { to: path, kept: keptIn(asked.text), key: seeded.rootKey });
      expect(shown.text).not.toContain("Nothing was sent");
      const again = await browser.post(path, { ...filledOf(shown.text, path), ...more });
      if (!restarts) expect([again.status, again.text.includes("was sent before")]).toEqual([409, true]);
      expect(await keyring.getBalance({ identity: "acme" })).toEqual(before);
    }
  });

  it("a form without fields is not kept: its page is shown", async () => {
    const { browser, hidden } = await ended();
    const asked = await browser.post("/owners/acme/enable", hidden);
    expect([asked.status, asked.headers.get("location")]).toEqual([303, "/sign-in?to=%2Fowners%2Facme%2Fenable"]);
  });

  it("shows who signs in with another root key that the form is not theirs", async () => {
    const { browser, hidden, keyring } = await ended();
    const asked = await browser.post("/owners/new", { ...hidden, ...TYPED });
    const { key } = await keyring.createRootKey({ permissions: ["api.*.read_key"] });
    const shown = await browser.post("/sign-in", { to: "/owners/new", kept: keptIn(asked.text), key });
    expect([shown.status, shown.headers.get("set-cookie")]).toEqual([
      403,
      expect.stringContaining("keystile-console="),
    ]);
    expect(shown.text).not.toContain("umbrella");
  });
});

describe("console: a form that the store cannot take", () => {
  const folder = mkdtempSync(join(tmpdir(), "keystile-console-"));
  const file = join(folder, "keys.db");
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("comes back with what was typed and the id of the request, and may be sent again under its own id", async () => {
    const { store, rootKey } = await seed(sqliteStore(file, { busyTimeout: 20 }));
    const faults: [string, string | undefined][] = [];
    const onError = (error: unknown, { requestId }: { requestId?: string }) =>
      void faults.push([(error as { code: string }).code, requestId]);
    const browser = client(store, { onError });
    await browser.signIn(rootKey);
    const path = "/owners/acme/grant";
    const hidden = hiddenOf((await browser.get(path)).text, path);
    const other = new Database(file);
    other.exec("BEGIN IMMEDIATE");
    const typed = { credits: "7", grantId: "", reason: "sorry & thanks" };
    const { status, text } = await browser.post(path, { ...hidden, ...typed });
    other.exec("COMMIT");
    other.close();
    expect([status, faults]).toEqual([503, [["STORE_BUSY", expect.stringMatching(/^req_/)]]]);
    expect(text).toContain(faults[0]?.[1]);
    for (const shown of ["It may not have been done", 'value="7"', 'value="sorry &amp; thanks"'])
      expect(text).toContain(shown);
    const again = hiddenOf(text, path);
    expect(again["once"]).toBe(hidden["once"]);
    expect((await browser.post(path, { ...again, ...typed })).headers.get("location")).toBe(
      "/owners/acme?notice=granted",
    );
    await store.close?.();
  });

  it("is shown with its fields where its page cannot be read either", async () => {
    const { store, rootKey } = await seed(memoryStore());
    let isDown = false;
    const down: Store = {
      ...store,
      readMany: ((...read: Parameters<Store["readMany"]>) => {
        if (isDown && read[0] === "identities") throw new Error("no route to host");
        return store.readMany(...read);
      }) as Store["readMany"],
    };
    const browser = client(down);
    await browser.signIn(rootKey);
    const path = "/owners/acme/grant";
    const hidden = hiddenOf((await browser.get(path)).text, path);
    isDown = true;
    const { status, text } = await browser.post(path, { ...hidden, credits: "7", reason: "<b>sorry" });
    isDown = false;
    expect([status >= 500, text.includes("&lt;b&gt;sorry"), text.includes("Send again")]).toEqual([true, true, true]);
    const again = hiddenOf(text, path);
    expect(again).toMatchObject({ once: hidden["once"], credits: "7" });
    expect((await browser.post(path, { ...again, reason: "sorry" })).headers.get("location")).toBe(
      "/owners/acme?notice=granted",
    );
  });

  it("a page that fails names its request, as onError does, and a refusal does not", async () => {
    const { store, rootKey } = await seed(memoryStore());
    let isDown = false;
    const list: Store["list"] = ((...read: Parameters<Store["list"]>) => {
      if (isDown) throw new Error("no route to host");
      return store.list(...read);
    }) as Store["list"];
    const ids: (string | undefined)[] = [];
    const browser = client({ ...store, list }, { onError: (_error, { requestId }) => void ids.push(requestId) });
    await browser.signIn(rootKey);
    isDown = true;
    const { status, text } = await browser.get("/roles");
    expect([status, ids]).toEqual([500, [expect.stringMatching(/^req_/)]]);
    expect(text).toContain(`request ${ids[0]}`);
    expect((await browser.get("/nowhere")).text).not.toContain("request req_");
  });
});
