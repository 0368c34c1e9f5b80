/** Each page of a portal, as its owner sees it, and what its forms do. */
import { describe, expect, it } from "vitest";
import { createKeyring, createVerifier, forOwner, KeystileError } from "../../src/index.js";
import { createPortal } from "../../src/portal/index.js";
import { hiddenOf } from "../console/client.js";
import { HOSTILE } from "../console/support.js";
import { type Browser, browse, CEILING, NOW, openShop, optionsOf, type Shop } from "./support.js";

/** The text of a page without its tags. */
const said = (text: string): string =>
  text
    .slice(text.indexOf("<main"))
    .replace(/<[^>]+>/g, " ")
    .replace(/\s+/g, " ");

const secretIn = (text: string): string => /id="ks-secret" value="([^"]+)"/.exec(text)?.[1] ?? "";

async function openAs(
  owner = "ann",
  more: Parameters<typeof browse>[2] = {},
): Promise<{ shop: Shop; ann: Browser; id: string }> {
  const shop = await openShop();
  return { shop, ann: browse(shop, owner, more), id: shop.keys[owner]?.[0]?.keyId ?? "" };
}

async function codeOf({ store }: Shop, key: string, now = NOW): Promise<string> {
  const verifier = createVerifier(store, { clock: () => now });
  const { code } = await verifier.verify({ key });
  await verifier.close();
  return code;
}

const mine = ({ keyring, apiId }: Shop, owner = "ann") => forOwner(keyring, owner, { apiId });

describe("portal: keys", () => {
  it("the first page shows the keys, their state and what they may do, and no text of a key", async () => {
    const { shop, ann } = await openAs();
    const { status, text } = await ann.get("/");
    expect(status).toBe(200);
    for (const what of ["Laptop of ann", "Server of ann", "active", "reports.read", "Nov 24, 2026"])
      expect(said(text)).toContain(what);
    for (const keys of Object.values(shop.keys)) for (const { key } of keys) expect(text).not.toContain(key);
  });

  it("make: the text is in the answer to the form and nowhere else, and the key may do what was ticked", async () => {
    const { shop, ann } = await openAs();
    const { status, text, headers } = await ann.submit("/new", { name: " CI ", "may:reports.write": "on" });
    const key = secretIn(text);
    expect([status, headers.get("cache-control"), key.startsWith("rep_")]).toEqual([200, "no-store", true]);
    expect(text.split(key)).toHaveLength(2);
    expect(await codeOf(shop, key)).toBe("VALID");
    const [made] = (await mine(shop).list()).data.filter(({ name }) => name === "CI");
    expect(made?.permissions).toEqual(["reports.write"]);
    for (const path of ["/", "/new", `/keys/${made?.keyId}`, `/keys/${made?.keyId}/rotate`, "/usage", "/statement"])
      expect((await ann.get(path)).text).not.toContain(key);
  });

  it("make: a form that is sent twice makes one key", async () => {
    const { shop, ann } = await openAs();
    const form = { ...hiddenOf((await ann.get("/new")).text, "/new"), "may:reports.read": "on" };
    expect((await ann.post("/new", form)).status).toBe(200);
    const again = await ann.post("/new", form);
    expect([again.status, said(again.text)]).toEqual([409, expect.stringContaining("This form was sent before")]);
    expect((await mine(shop).list()).data).toHaveLength(3);
  });

  it("make: a double click makes one key, and both answers show it", async () => {
    const { shop, ann } = await openAs();
    const form = { ...hiddenOf((await ann.get("/new")).text, "/new"), "may:reports.read": "on" };
    const [first, second] = await Promise.all([ann.post("/new", form), ann.post("/new", form)]);
    expect([first.status, second.status, secretIn(second.text)]).toEqual([200, 200, secretIn(first.text)]);
    expect(await codeOf(shop, secretIn(first.text))).toBe("VALID");
    expect((await mine(shop).list()).data).toHaveLength(3);
    expect((await ann.post("/new", form)).status).toBe(409);
  });

  it("make: what is wrong stands beside its field, and what was typed is kept", async () => {
    const { shop, ann } = await openAs();
    const unticked = await ann.submit("/new", { name: "CI" });
    expect([unticked.status, said(unticked.text)]).toEqual([400, expect.stringContaining("Tick what the key may do.")]);
    expect(unticked.text).toContain('value="CI"');
    expect(unticked.text.match(/aria-invalid/g)).toHaveLength(1);
    const long = await ann.submit("/new", { name: "x".repeat(256), "may:reports.read": "on" });
    expect([long.status, said(long.text)]).toEqual([400, expect.stringContaining("A name has 1 to 255 characters.")]);
    expect((await mine(shop).list()).data).toHaveLength(2);
  });

  it("make: with one permission there is nothing to tick, and none without any", async () => {
    for (const permissions of [["reports.read"], []]) {
      const { shop, ann } = await openAs("ann", { ceiling: { permissions } });
      const { text } = await ann.get("/new");
      expect(text).not.toContain("checkbox");
      const key = secretIn((await ann.submit("/new", { name: "" })).text);
      expect(await codeOf(shop, key)).toBe("VALID");
      const [made] = (await mine(shop).list()).data;
      expect([made?.name, made?.permissions ?? []]).toEqual([undefined, permissions]);
      expect(said((await ann.get("/")).text)).toContain("Without a name");
    }
  });

  it("make: more keys than the ceiling, or a suspended account, is said", async () => {
    const { shop, ann } = await openAs("ann", { ceiling: { ...CEILING, keys: 2 } });
    const full = await ann.submit("/new", { "may:reports.read": "on" });
    expect([full.status, said(full.text)]).toEqual([409, expect.stringContaining("Revoke one first.")]);
    const others = browse(shop, "ann");
    await shop.keyring.updateIdentity({ identity: "ann", enabled: false });
    const suspended = await others.submit("/new", { "may:reports.read": "on" });
    expect([suspended.status, said(suspended.text)]).toEqual([409, expect.stringContaining("No key can be made now")]);
    expect(said((await others.get("/")).text)).toContain("suspended");
  });

  it("rename: another name, none, and hostile ones, which are text wherever they stand", async () => {
    const { shop, ann, id } = await openAs();
    const renamed = await ann.submit(`/keys/${id}`, { name: "CI" });
    expect([renamed.status, renamed.headers.get("location")]).toEqual([303, `/keys/${id}?notice=nowRenamed`]);
    expect(said((await ann.get(`/keys/${id}?notice=nowRenamed`)).text)).toContain("The key has another name.");
    await ann.submit(`/keys/${id}`, { name: "" });
    expect((await mine(shop).list()).data.find(({ keyId }) => keyId === id)?.name).toBeUndefined();
    for (const name of HOSTILE) {
      expect((await ann.submit(`/keys/${id}`, { name })).status).toBe(303);
      for (const path of ["/", `/keys/${id}`, `/keys/${id}/rotate`, `/keys/${id}/revoke`, "/usage"]) {
        const { text } = await ann.get(path);
        expect(text.match(/<(?:img|script(?! defer src="\/portal)|svg onload|base|style|a href=\/)/g)).toBeNull();
      }
    }
  });

  it("replace: each overlap, once; the page tells until when the old key works", async () => {
    const { shop, ann, id } = await openAs();
    const old = shop.keys["ann"]?.[0]?.key ?? "";
    const { status, text } = await ann.submit(`/keys/${id}/rotate`, { overlap: "3600000" });
    expect([status, await codeOf(shop, secretIn(text)), await codeOf(shop, old)]).toEqual([200, "VALID", "VALID"]);
    expect(await codeOf(shop, old, NOW + 3_600_001)).toBe("EXPIRED");
    const page = (await ann.get(`/keys/${id}`)).text;
    expect(said(page)).toContain("replaced works until Nov 24, 2026, 1:00 PM UTC");
    expect(page).not.toContain(`/keys/${id}/rotate`);
    const again = await ann.submit(`/keys/${id}/rotate`, { overlap: "0" });
    expect([again.status, said(again.text)]).toEqual([409, expect.stringContaining("it was replaced before")]);
    const [newest] = (await mine(shop).list()).data;
    expect(said((await ann.get(`/keys/${newest?.keyId}`)).text)).toContain(`Replaces ${id}`);
    await ann.submit(`/keys/${newest?.keyId}/rotate`, { overlap: "0" });
    expect(await codeOf(shop, secretIn(text))).toBe("EXPIRED");
    expect(said((await ann.get("/")).text)).toMatch(/rep_\w{4}… replaced /);
  });

  it("replace: the form names the key before, where that still works and ends now", async () => {
    const { shop, ann, id } = await openAs();
    const { start } = await mine(shop).get({ keyId: id });
    const { keyId } = await mine(shop).rotate({ keyId: id, overlap: 3_600_000 });
    const page = await ann.get(`/keys/${keyId}/rotate`);
    expect(said(page.text)).toMatch(/The key before it, rep_\w{4}… , works until Nov 24, 2026, 1:00 PM UTC/);
    expect([page.text.includes(`href="/keys/${id}"`), said(page.text)]).toEqual([
      true,
      expect.stringContaining(`${start}…`),
    ]);
    expect(said((await ann.get(`/keys/${id}/rotate`)).text)).not.toContain("key before");
    const last = await mine(shop).rotate({ keyId, overlap: 3_600_000 });
    await mine(shop).revoke({ keyId });
    expect(said((await ann.get(`/keys/${last.keyId}/rotate`)).text)).not.toContain("key before");
    const now = await mine(shop).rotate({ keyId: last.keyId, overlap: 0 });
    expect(said((await ann.get(`/keys/${now.keyId}/rotate`)).text)).not.toContain("key before");
  });

  it.each(["", "1", "-1", "NaN", "2592000000", "3600000 "])(
    "replace: no overlap but those listed: %j",
    async (overlap) => {
      const { shop, ann, id } = await openAs();
      const { status, text } = await ann.submit(`/keys/${id}/rotate`, { overlap });
      expect([status, said(text)]).toEqual([400, expect.stringContaining("Choose one of these.")]);
      expect((await mine(shop).list()).data).toHaveLength(2);
    },
  );

  it("revoke: asks first, and then the key is gone", async () => {
    const { shop, ann, id } = await openAs();
    expect(said((await ann.get(`/keys/${id}/revoke`)).text)).toContain("Revoke Laptop of ann");
    expect(await codeOf(shop, shop.keys["ann"]?.[0]?.key ?? "")).toBe("VALID");
    expect((await ann.submit(`/keys/${id}/revoke`)).headers.get("location")).toBe("/?notice=nowRevoked");
    expect(await codeOf(shop, shop.keys["ann"]?.[0]?.key ?? "")).toBe("NOT_FOUND");
    expect((await ann.get(`/keys/${id}`)).status).toBe(404);
  });

  it("50 keys are a page, and the rest follows", async () => {
    const { shop, ann } = await openAs();
    const many = forOwner(shop.keyring, "ann", { apiId: shop.apiId, ceiling: { keys: 100 } });
    for (let i = 0; i < 52; i++) await many.create({ name: `number ${i}` });
    const keysOn = (text: string) => [...text.matchAll(/href="\/keys\/(\w+)"/g)].map(([, id]) => id);
    const { text } = await ann.get("/");
    const next = /href="(\/\?cursor=[^"]+)"/.exec(text)?.[1] ?? "";
    const rest = (await ann.get(next)).text;
    expect([keysOn(text).length, keysOn(rest).length]).toEqual([50, 4]);
    expect(new Set([...keysOn(text), ...keysOn(rest)]).size).toBe(54);
    expect([said(rest).includes("First page"), said(rest).includes("Next page")]).toEqual([true, false]);
    expect((await ann.get("/?cursor=nothing")).status).toBe(400);
  });
});

describe("portal: a store that does not answer", () => {
  it("is said with the form as it was, or with an id that onError is told", async () => {
    const shop = await openShop();
    const told: unknown[] = [];
    let isDown = false;
    const down = <T>(act: () => T): T => {
      if (isDown) throw new KeystileError("STORE_BUSY", "secret");
      return act();
    };
    const { store } = shop;
    const failing = Object.assign(Object.create(store) as typeof store, {
      write: (...given: Parameters<typeof store.write>) => down(() => store.write(...given)),
      readMany: (...given: Parameters<typeof store.readMany>) =>
        told.length > 1 ? down(() => store.readMany(...given)) : store.readMany(...given),
    });
    const keyring = createKeyring(failing, { clock: () => NOW });
    const onError = (error: unknown, context: unknown) => void told.push([error, context]);
    const ann = browse({ ...shop, keyring, store: failing }, "ann", { onError });
    const hidden = hiddenOf((await ann.get("/new")).text, "/new");
    const form = { ...hidden, name: "CI", "may:reports.read": "on" };
    isDown = true;
    const failed = await ann.post("/new", form);
    expect([failed.status, said(failed.text)]).toEqual([503, expect.stringContaining("It may not have been done.")]);
    expect([failed.text.includes('value="CI"'), failed.text.includes("secret"), told.length]).toEqual([true, false, 1]);
    expect(hiddenOf(failed.text, "/new")["once"]).toBe(hidden["once"]);
    told.push("from now on it cannot be read either");
    const page = await ann.get("/");
    expect([page.status, said(page.text)]).toEqual([503, expect.stringContaining("This does not work just now.")]);
    expect(page.text).toContain((told.at(-1) as [unknown, { requestId: string }])[1].requestId);
    isDown = false;
    expect((await ann.post("/new", form)).status).toBe(200);
  });
});

describe("portal: credits", () => {
  it("what is left, account by account, with when more comes; no reason that staff gave", async () => {
    const { ann } = await openAs();
    const { text } = await ann.get("/");
    for (const what of ["1,047", "997 of 1,000", "+1,000 on Dec 1, 2026", "50 of 50", "Dec 24, 2026"])
      expect(said(text)).toContain(what);
    for (const hidden of ["staff only", "order_ann"]) expect(text).not.toContain(hidden);
  });

  it("what is invoiced is named, and is not in what is left", async () => {
    const { shop, ann } = await openAs();
    const overage = { identity: "ann", grantId: "overage", amount: 10_000, priority: 255 };
    await shop.keyring.grantCredits(overage);
    const text = said((await ann.get("/")).text);
    expect(text).toContain("1,047");
    expect(text).toContain("Beyond the plan 10,000 of 10,000");
    expect(text).not.toContain("11,047");
  });

  it("an owner without credits has no such part, and a key with its own has a column", async () => {
    const { shop } = await openAs();
    const none = browse(shop, "new customer", { ceiling: { credits: { remaining: 7 } } });
    expect((await none.get("/")).text).not.toContain('id="ks-left"');
    expect(said((await none.get("/")).text)).toContain("There are no keys yet.");
    await none.submit("/new");
    expect((await none.get("/")).text).toContain('data-title="Credits"><div>7</div>');
  });
});

describe("portal: counts", () => {
  it("usage: by day and by key, with what was refused", async () => {
    const { ann } = await openAs();
    const text = said((await ann.get("/usage")).text);
    expect(text).toContain("Nov 24, 2026 1 0 1 Nov 4, 2026 4 2 2");
    expect(text).toContain("Laptop of ann 3 1 2 Server of ann 2 1 1");
  });

  it("usage: a revoked key goes by its id, and who used nothing is told so", async () => {
    const { shop, ann, id } = await openAs();
    await mine(shop).revoke({ keyId: id });
    expect(said((await ann.get("/usage")).text)).toContain(`${id} 3 1 2`);
    expect(said((await browse(shop, "new").get("/usage")).text)).toContain("Nothing was used.");
  });

  it("the statement of a month as a page and as CSV, without who changed what and why", async () => {
    const { shop, ann } = await openAs();
    await shop.keyring.updateIdentityCredits({ identity: "ann", operation: "increment", value: 5, reason: "sorry" });
    const { text } = await ann.get("/statement");
    for (const what of ["Statement of November 2026", "Extra credits +50", "Credits spent -3", "Now 1,052"])
      expect(said(text)).toContain(what);
    expect(text).toContain('href="/statement?month=2026-10"');
    expect(text).not.toContain("month=2026-12");
    expect((await ann.get("/statement?month=2026-10")).text).toContain('href="/statement?month=2026-11"');
    const file = await ann.get("/statement.csv?month=2026-11");
    expect(file.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(file.headers.get("content-disposition")).toBe('attachment; filename="statement-2026-11.csv"');
    expect(file.headers.get("cache-control")).toBe("no-store");
    expect(file.text.split("\r\n").at(-2)).toBe("2026-11-24,closing,,1052");
    for (const hidden of ["sorry", "staff only", "order_ann", "updateCredits"])
      expect([text.includes(hidden), file.text.includes(hidden)]).toEqual([false, false]);
  });

  it("the statement of a month without counts claims no balance", async () => {
    const { ann } = await openAs();
    const text = said((await ann.get("/statement?month=2026-10")).text);
    expect(text).toContain("No balance of this month was counted.");
    for (const claim of ["At first", "At the end", "Nothing"]) expect(text).not.toContain(claim);
    expect((await ann.get("/statement.csv?month=2026-10")).text).toBe("day,what,credits,balance\r\n");
  });

  it.each(["2026-13", "", "11-2026", "2026-11'", "../2026-11"])(
    "no statement of what is no month: %j",
    async (month) => {
      const { ann } = await openAs();
      for (const path of ["/statement", "/statement.csv"])
        expect((await ann.get(`${path}?month=${encodeURIComponent(month)}`)).status).toBe(400);
    },
  );

  it("no statement of a month that has not begun", async () => {
    const { ann } = await openAs();
    for (const path of ["/statement", "/statement.csv"])
      expect((await ann.get(`${path}?month=2026-12`)).status).toBe(404);
  });

  it("without analytics there are neither", async () => {
    const shop = await openShop();
    const { analytics: _, ...options } = optionsOf(shop);
    const portal = createPortal(shop.keyring, options);
    const get = (path: string) => portal(new Request(`http://x${path}`, { headers: { cookie: "user=ann" } }));
    expect(await (await get("/")).text()).not.toContain("/usage");
    for (const path of ["/usage", "/statement", "/statement.csv"]) expect((await get(path)).status).toBe(404);
  });

  it("more counts than may be read is said", async () => {
    const shop = await openShop();
    const { store } = shop;
    // As a store with too many counts answers.
    const readOutcomes = () => Promise.reject(new KeystileError("ANALYTICS_TOO_LARGE", "too many"));
    const full = Object.assign(Object.create(store) as typeof store, { readOutcomes });
    const { text } = await browse({ ...shop, keyring: createKeyring(full), store: full }, "ann").get("/usage");
    expect(said(text)).toContain("There is too much to add up for a page.");
  });
});
