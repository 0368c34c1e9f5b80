/** What the pages do: every action, as callers with and without the permission, with names that nobody would choose. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MENU } from "../../src/console/view/layout.js";
import { PAGES } from "../../src/console/pages/find-page.js";
import { allPermissions } from "../../src/cli/database/database.js";
import { createAnalytics, createKeyring, createRatelimits, createVerifier } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { runs } from "../runs.js";
import { type Client, client, filledOf, hiddenOf } from "./client.js";
import { HOSTILE, NOW, seed, type Seeded } from "./support.js";

async function signedIn(options: Parameters<typeof client>[1] = {}) {
  const seeded = await seed();
  const browser = client(seeded.store, options);
  await browser.signIn(seeded.rootKey);
  const keyring = createKeyring(seeded.store, { clock: () => NOW });
  const key = (name: string): string => `/keys/${seeded.keys[name]}`;
  const keyId = (name: string): string => seeded.keys[name] ?? "";
  return { ...seeded, browser, keyring, key, keyId };
}

/** Every page with the ids of a store in it. */
const pathsOf = ({ keys }: Seeded): string[] =>
  PAGES.map(({ path }) => {
    const id = path.startsWith("/owners") ? "acme" : path.startsWith("/keys") ? (keys["Mobile app"] ?? "") : "x_1";
    return path.replace(":id", id);
  });

describe("console: keys", () => {
  it("are found by name, state, owner and API, and shown with what is left", async () => {
    const { browser, apiId } = await signedIn();
    const { text } = await browser.get("/keys");
    for (const shown of ["Mobile app", "acme", "Documents", "1,250,000", "in 12 d", "Disabled"])
      expect(text).toContain(shown);
    expect((await browser.get("/keys?search=mobile")).text).not.toContain("Billing worker");
    expect((await browser.get("/keys?state=disabled")).text).toContain("Old laptop");
    expect((await browser.get("/keys?externalId=globex")).text).not.toContain("Mobile app");
    expect((await browser.get(`/keys?apiId=${apiId}`)).text).not.toContain("Nightly export");
    expect((await browser.get("/keys?order=expires")).text).not.toContain("Billing worker");
    expect((await browser.get("/keys?order=nonsense")).status).toBe(400);
    expect((await browser.get("/keys?search=nothing-like-it")).text).toContain("No key is found.");
  });

  it("are found by their texts, which no page and no address repeats", async () => {
    const { browser, texts, key, store, keyring, apiId } = await signedIn();
    const text = texts["Mobile app"] ?? "";
    expect((await browser.get("/keys")).text).toContain('href="/keys/find"');
    const found = await browser.submit("/keys/find", "/keys/find", { key: text });
    expect([found.status, found.headers.get("location")]).toEqual([303, `${key("Mobile app")}?notice=found`]);
    for (const wrong of ["", `${text}x`]) {
      const answer = await browser.submit("/keys/find", "/keys/find", { key: wrong });
      expect([answer.status, answer.text.includes(text)]).toEqual([404, false]);
      expect(answer.text).toContain("No key has this text");
      expect(answer.text).not.toContain("Nothing was changed");
    }
    const other = (await keyring.listApis({})).data.find((api) => api.id !== apiId)?.id;
    const { key: rootKey } = await keyring.createRootKey({ permissions: [`api.${other}.read_key`] });
    const stranger = client(store);
    await stranger.signIn(rootKey);
    expect((await stranger.submit("/keys/find", "/keys/find", { key: text })).status).toBe(404);
  });

  it("are listed in pages, which lead on and back", async () => {
    const { browser, keyring, apiId } = await signedIn();
    for (let i = 0; i < 60; i++) await keyring.createKey({ apiId, name: `many ${i}` });
    const { text } = await browser.get("/keys?search=many");
    const next = /href="([^"]*cursor=[^"]*)"/.exec(text)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const second = await browser.get(next);
    const names = (page: string) => new Set([...page.matchAll(/many \d+/g)].map(([name]) => name));
    expect([names(text).size, names(second.text).size]).toEqual([50, 10]);
    expect(new Set([...names(text), ...names(second.text)]).size).toBe(60);
    expect(second.text).toContain('href="/keys?search=many"');
  });

  it("a new one is shown once, with all that the form says", async () => {
    const { browser, store, apiId, keyring } = await signedIn();
    const shown = await browser.submit("/keys/new", "/keys/new", {
      ...{ apiId, prefix: "sk_live", name: "New one", externalId: "auth0|7", expires: "2027-01-02T03:04" },
      ...{ permissions: "documents.read\r\n\r\n documents.write ", roles: "reader", meta: '{"plan": "pro"}' },
      ...{ ratelimits: "requests 1,000/60 auto\nslow ones 5/1.5", ipAllowlist: "203.0.113.0/24" },
      ...{ remaining: "1,000", interval: "monthly", amount: "500", refillDay: "31" },
    });
    const key = /id="ks-secret" value="([^"]*)"/.exec(shown.text)?.[1] ?? "";
    expect([shown.status, key]).toEqual([200, expect.stringMatching(/^sk_live_/)]);
    expect(await keyring.whoami({ key })).toMatchObject({
      ...{ name: "New one", expires: Date.UTC(2027, 0, 2, 3, 4), permissions: ["documents.read", "documents.write"] },
      ...{
        roles: ["reader"],
        meta: { plan: "pro" },
        ipAllowlist: ["203.0.113.0/24"],
        identity: { externalId: "auth0|7" },
      },
      credits: { remaining: 1_000, refill: { interval: "monthly", amount: 500, refillDay: 31 } },
      ratelimits: expect.arrayContaining([
        expect.objectContaining({ name: "requests", limit: 1_000, duration: 60_000, autoApply: true }),
        expect.objectContaining({ name: "slow ones", limit: 5, duration: 1_500 }),
      ]) as unknown,
    });
    expect(shown.headers.get("cache-control")).toBe("no-store");
    const verifier = createVerifier(store, { clock: () => NOW });
    expect((await verifier.verify({ key })).code).toBe("FORBIDDEN");
    await verifier.close();
    const [, keyId = ""] = /href="\/keys\/(key_[^"]*)"/.exec(shown.text) ?? [];
    for (const path of [`/keys/${keyId}`, "/keys", "/audit"]) expect((await browser.get(path)).text).not.toContain(key);
  });

  it("what is wrong with a form stands beside the field, and what was typed stays", async () => {
    const { browser, apiId } = await signedIn();
    const fields = { apiId, name: "kept", ratelimits: "no numbers", expires: "soon", meta: "{", remaining: "many" };
    const meta = await browser.submit("/keys/new", "/keys/new", fields);
    expect([meta.status, meta.text]).toEqual([400, expect.stringContaining('id="ks-meta-problem"')]);
    const { status, text } = await browser.submit("/keys/new", "/keys/new", { ...fields, meta: "" });
    expect(status).toBe(400);
    for (const name of ["ratelimits", "expires", "remaining"]) expect(text).toContain(`id="ks-${name}-problem"`);
    for (const value of ['value="kept"', "no numbers</textarea>", 'value="many"']) expect(text).toContain(value);
    expect(text).not.toContain('id="ks-name-problem"');
  });

  it("are disabled and enabled, and given credits", async () => {
    const { browser, keyring, key, keyId } = await signedIn();
    const shown = () => keyring.getKey({ keyId: keyId("Mobile app") });
    const path = key("Mobile app");
    const done = await browser.submit(`${path}/disable`, `${path}/disable`);
    expect(done.headers.get("location")).toBe(`${path}?notice=disabled`);
    expect((await browser.get(done.headers.get("location") ?? "")).text).toContain("The key is disabled.");
    expect((await shown()).enabled).toBe(false);
    await browser.submit(path, `${path}/enable`);
    expect((await shown()).enabled).toBe(true);
    for (const [operation, value, left] of [
      ["increment", "1,000", 1_037],
      ["decrement", "37", 1_000],
      ["set", "1 000 000", 1_000_000],
      ["set", " 5 ", 5],
    ] as const) {
      expect((await browser.submit(path, `${path}/credits`, { operation, value })).status).toBe(303);
      expect((await shown()).credits?.remaining).toBe(left);
    }
    for (const value of ["x", "10.000", "1,5", "1,00", "1,0000", "10 00", "1,000_000", "1e3", "0x10", "5.5", "", "-1"])
      for (const operation of ["increment", "set"]) {
        const { status } = await browser.submit(path, `${path}/credits`, { operation, value });
        expect([value, status, (await shown()).credits?.remaining]).toEqual([value, 400, 5]);
      }
  });

  it("an edit changes what was changed, and nothing that another changed meanwhile", async () => {
    const { browser, keyring, key, keyId, store } = await signedIn();
    const path = `${key("Mobile app")}/edit`;
    const before = await keyring.getKey({ keyId: keyId("Mobile app") });
    const form = (await browser.get(path)).text;
    const send = (text: string, fields: Record<string, string>) =>
      browser.post(path, { ...filledOf(text, path), ...fields });
    expect((await send(form, {})).status).toBe(303);
    expect(await keyring.getKey({ keyId: before.keyId })).toEqual(before);
    const again = (await browser.get(path)).text;
    expect((await send(again, { name: "Phone", meta: "" })).status).toBe(303);
    const { name, meta, permissions, ratelimits } = await keyring.getKey({ keyId: before.keyId });
    expect([name, meta, permissions, ratelimits]).toEqual(["Phone", undefined, before.permissions, before.ratelimits]);
    const late = (await browser.get(path)).text;
    await keyring.updateCredits({ keyId: before.keyId, operation: "set", value: 1 });
    await createKeyring(store, { clock: () => NOW + 1 }).updateKey({ keyId: before.keyId, permissions: [] });
    const refused = await send(late, { name: "Watch" });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("changed meanwhile")]);
    expect(await keyring.getKey({ keyId: before.keyId })).toMatchObject({ name: "Phone" });
  });

  it("a rotation shows the new key once, and both verify for as long as was asked", async () => {
    const { browser, store, key, keyId, texts, keyring } = await signedIn();
    const path = `${key("Billing worker")}/rotate`;
    const { text } = await browser.submit(path, path, { expiration: "3600000" });
    const fresh = /id="ks-secret" value="([^"]*)"/.exec(text)?.[1] ?? "";
    let now = NOW;
    const verifier = createVerifier(store, { clock: () => now });
    const codes = async () => [
      (await verifier.verify({ key: fresh })).code,
      (await verifier.verify({ key: texts["Billing worker"] ?? "" })).code,
    ];
    expect(await codes()).toEqual(["VALID", "VALID"]);
    now += 3_600_001;
    expect(await codes()).toEqual(["VALID", "EXPIRED"]);
    await verifier.close();
    const { rerolledTo = "" } = await keyring.getKey({ keyId: keyId("Billing worker") });
    expect((await browser.get(key("Billing worker"))).text).toContain(rerolledTo);
    expect((await browser.get(`/keys/${rerolledTo}`)).text).toContain(keyId("Billing worker"));
    await keyring.deleteKey({ keyId: keyId("Billing worker") });
    const { keyId: third } = await createKeyring(store, { clock: () => now }).rerollKey({
      keyId: rerolledTo,
      expiration: 0,
    });
    for (const one of [keyId("Billing worker"), rerolledTo, third]) {
      const { text: page } = await browser.get(`/keys/${one}`);
      const chain = page.split(">Rotations</caption>")[1]?.split("</table>")[0] ?? "";
      expect(chain.match(/<tr role="row">/g)).toHaveLength(4);
      expect([chain.split("this key").length, chain.indexOf("Deleted") > 0]).toEqual([2, true]);
    }
  });

  it("every form with every field empty allows nothing more than before", async () => {
    const { browser, keyring, key, keyId, apiId, store } = await signedIn();
    const id = keyId("Mobile app");
    await keyring.updateKey({
      ...{ keyId: id, ipAllowlist: ["10.0.0.0/8"], expires: NOW + 86_400_000 },
      ratelimits: [{ name: "requests", limit: 1, duration: 60_000, autoApply: true }],
      credits: { remaining: 5, refill: { interval: "daily", amount: 5 } },
    });
    const ratelimits = createRatelimits(store);
    const override = { namespace: "mine", identifier: "customer 1" };
    await ratelimits.setOverride({ ...override, limit: 5, duration: 60_000 });
    const [role] = (await keyring.listRoles()).data;
    const bounds = async () => {
      const {
        updatedAt: _,
        enabled: __,
        permissions: ___,
        name: ____,
        meta: _____,
        ...of
      } = await keyring.getKey({
        keyId: id,
      });
      const { ratelimits: shared, credits } = await keyring.getIdentity({ identity: "acme" });
      const listed = (await keyring.listKeys({ apiId })).data.map((one) => one.keyId);
      const { limit } = await ratelimits.getOverride(override);
      return { of, shared, credits, listed, limit, roles: (await keyring.listRoles()).data.length };
    };
    const before = await bounds();
    const ids = { keys: id, owners: "acme", limits: "mine", roles: role?.id ?? "", "root-keys": "rk_1" };
    let sent = 0;
    for (const { path } of PAGES) {
      const page = path.replace(":id", ids[path.split("/")[1] as keyof typeof ids] ?? "");
      const { text } = await browser.get(page);
      for (const [, to = "", body = ""] of text.matchAll(/<form method="post" action="([^"]*)"([\s\S]*?)<\/form>/g)) {
        // A new key is one of its own, without permissions.
        if (/sign-out|enable$|disable$|keys\/new$/.test(to)) continue;
        const selects = [...body.matchAll(/<select [^>]*name="([^"]*)"[^>]*>([\s\S]*?)<\/select>/g)].map(
          ([, name = "", options = ""]) =>
            [name, [...options.matchAll(/value="([^"]*)"/g)].map(([, value = ""]) => value)] as const,
        );
        const hidden = [...body.matchAll(/type="hidden" name="([^"]*)" value="([^"]*)"/g)];
        const kept = Object.fromEntries(hidden.map(([, name = "", value = ""]) => [name, value]));
        const empty = [...body.matchAll(/name="([^"]*)"/g)].map(([, name = ""]) => name);
        // Of a select each value: a browser sends none that is empty.
        const choices = selects.flatMap(([name, values]) => values.map((value) => ({ [name]: value })));
        for (const chosen of choices.length === 0 ? [{}] : choices) {
          if ("removed" in kept || "expiration" in chosen) continue;
          const blank = Object.fromEntries(
            empty.filter((name) => !/^confirm$|^permanent$/.test(name)).map((n) => [n, ""]),
          );
          await browser.post(to, { ...blank, ...kept, once: `${kept["once"]}${sent}`, ...chosen });
          sent++;
          expect(await bounds(), `${to} ${JSON.stringify(chosen)}`).toEqual(before);
        }
      }
    }
    expect(sent).toBeGreaterThan(8);
    expect((await browser.get(key("Mobile app"))).text).toContain("No limit");
  });

  it("credits: an empty number is a problem at its field; no limit is chosen, and ticked", async () => {
    const { browser, keyring, key, keyId } = await signedIn();
    const refill = { interval: "daily", amount: 5 } as const;
    await keyring.updateKey({ keyId: keyId("Mobile app"), credits: { remaining: 5, refill } });
    for (const path of [key("Mobile app"), "/owners/acme"]) {
      const change = (fields: Record<string, string>) => browser.submit(path, `${path}/credits`, fields);
      const balance = async () =>
        path === "/owners/acme"
          ? (await keyring.getIdentity({ identity: "acme" })).credits
          : (await keyring.getKey({ keyId: keyId("Mobile app") })).credits;
      const before = await balance();
      const empty = await change({ operation: "set", value: "" });
      expect([empty.status, empty.text]).toEqual([400, expect.stringContaining('id="ks-value-problem"')]);
      const unticked = await change({ operation: "unlimited", value: "" });
      expect([unticked.status, unticked.text]).toEqual([
        400,
        expect.stringContaining("Tick the box below to remove the limit"),
      ]);
      expect(unticked.text).toContain('name="confirm"');
      expect(await balance()).toEqual(before);
      expect((await change({ operation: "unlimited", value: "", confirm: "on" })).status).toBe(303);
      expect(await balance()).toBeUndefined();
    }
  });

  it("a bound that is emptied in a form goes once the box is ticked", async () => {
    const { browser, keyring, key, keyId } = await signedIn();
    await keyring.updateKey({ keyId: keyId("Mobile app"), ipAllowlist: ["10.0.0.0/8"] });
    const path = `${key("Mobile app")}/edit`;
    const fields = Object.fromEntries(
      [
        ...(await browser.get(path)).text.matchAll(/<input type="(?:text|datetime-local)"[^>]* name="([^"]*)"[^>]*>/g),
      ].map(([tag, name = ""]) => [name, /value="([^"]*)"/.exec(tag)?.[1] ?? ""]),
    );
    const refused = await browser.submit(path, path, { ...fields, ipAllowlist: "" });
    const said = "Tick the box below to remove the allowed addresses.";
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(said)]);
    expect([(await browser.get(path)).text, refused.text].map((text) => text.includes('name="confirm"'))).toEqual([
      false,
      true,
    ]);
    expect((await browser.submit(path, path, { ...fields, ipAllowlist: "", confirm: "on" })).status).toBe(303);
    expect((await keyring.getKey({ keyId: keyId("Mobile app") })).ipAllowlist).toBeUndefined();
    const owner = "/owners/acme/edit";
    expect((await browser.submit(owner, owner, { ratelimits: "" })).status).toBe(400);
    expect((await browser.submit(owner, owner, { ratelimits: "", confirm: "on" })).status).toBe(303);
    expect((await keyring.getIdentity({ identity: "acme" })).ratelimits).toBeUndefined();
  });

  it("the page of a rotation names the key and its owner, and says when the old key ends", async () => {
    const { browser, key, keyId } = await signedIn();
    const path = `${key("Mobile app")}/rotate`;
    const { text } = await browser.get(path);
    for (const shown of ["Mobile app", keyId("Mobile app"), "acme", "in 1 d, 2026-11-25 12:00:00 UTC"])
      expect(text).toContain(shown);
    const done = await browser.submit(path, path, { expiration: "86400000" });
    expect(done.text).toContain("which ends 2026-11-25 12:00:00 UTC");
    const now = `${key("Old laptop")}/rotate`;
    expect((await browser.submit(now, now, { expiration: "0" })).text).toContain("which has ended");
  });

  it("a rotation that is sent twice, or from a page opened before, makes no second successor", async () => {
    const { browser, key, keyId, keyring, apiId } = await signedIn();
    const path = `${key("Mobile app")}/rotate`;
    const fields = hiddenOf((await browser.get(path)).text, path);
    const tab = hiddenOf((await browser.get(path)).text, path);
    const keys = async () => (await keyring.listKeys({ apiId })).data.length;
    const before = await keys();
    const sent = await Promise.all([1, 2].map(() => browser.post(path, { ...fields, expiration: "0" })));
    const [secret = ""] = sent.flatMap(({ text }) => /id="ks-secret" value="[^"]+"/.exec(text) ?? []);
    expect(sent.map(({ status, text }) => [status, text.includes(secret)])).toEqual(Array(2).fill([200, true]));
    const again = await browser.post(path, { ...tab, expiration: "0" });
    const { rerolledTo = "" } = await keyring.getKey({ keyId: keyId("Mobile app") });
    expect([again.status, await keys()]).toEqual([409, before + 1]);
    expect(again.text).toContain(`href="/keys/${rerolledTo}"`);
    expect(again.text).not.toContain('name="expiration"');
    expect((await browser.get(key("Mobile app"))).text).not.toContain('/rotate"');
    expect((await browser.get(`/keys/${rerolledTo}`)).text).toContain('/rotate"');
  });

  it("a key is revoked once its owner is typed, or without one its start", async () => {
    const { browser, keyring, key, keyId } = await signedIn();
    for (const [name, right] of [
      ["Mobile app", "acme"],
      ["nameless", (await keyring.getKey({ keyId: keyId("nameless") })).start],
    ] as const) {
      const path = `${key(name)}/revoke`;
      for (const typed of ["", "acme ", "globex", name])
        expect([typed, (await browser.submit(path, path, { typed })).status]).toEqual([typed, 400]);
      expect((await browser.submit(path, path, { typed: right })).headers.get("location")).toBe("/keys?notice=revoked");
      await expect(keyring.getKey({ keyId: keyId(name) })).rejects.toMatchObject({ code: "NOT_FOUND" });
    }
  });

  it("a revoked key is found by text, id and search, with who revoked it and when, and nothing to do with it", async () => {
    const { browser, store, keyring, texts, key, keyId } = await signedIn();
    const as = createKeyring(store, { clock: () => NOW - 3 * 86_400_000, actor: "<b>support</b>" });
    await as.deleteKey({ keyId: keyId("Mobile app") });
    const found = await browser.submit("/keys/find", "/keys/find", { key: texts["Mobile app"] ?? "" });
    expect(found.headers.get("location")).toBe(`${key("Mobile app")}?notice=found`);
    const { status, text } = await browser.get(key("Mobile app"));
    expect(status).toBe(200);
    expect(text).toContain("&lt;b&gt;support&lt;/b&gt;");
    const facts = text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
    expect(facts).toContain("Deleted 3 d ago by &lt;b&gt;support&lt;/b&gt;");
    expect(facts).toContain("The key was deleted 3 d ago by &lt;b&gt;support&lt;/b&gt; .");
    expect([...text.matchAll(/<form method="post" action="([^"]*)"/g)].map(([, to]) => to)).toEqual(["/sign-out"]);
    for (const way of ["edit", "rotate", "revoke"]) {
      expect(text).not.toContain(`${key("Mobile app")}/${way}`);
      expect((await browser.get(`${key("Mobile app")}/${way}`)).status).toBe(404);
    }
    const { csrf } = hiddenOf(text, "/sign-out");
    for (const way of ["enable", "credits", "edit", "rotate", "revoke"])
      expect((await browser.post(`${key("Mobile app")}/${way}`, { csrf: csrf ?? "" })).status, way).not.toBe(303);
    const list = async (query: string) => (await browser.get(`/keys${query}`)).text;
    expect(await list("?state=deleted")).toContain("Mobile app");
    expect(await list("?search=mobile")).toMatch(/No key is found.*Deleted keys.*Mobile app/s);
    for (const query of ["", "?search=billing", "?search=mobile&state=active", "?state=expired"])
      expect(await list(query), query).not.toContain("Mobile app");
    await expect(keyring.getKey({ keyId: keyId("Mobile app") })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("keys that were replaced and are still valid have a filter, what ends first comes first", async () => {
    const { browser, keyring, key, keyId } = await signedIn();
    await keyring.rerollKey({ keyId: keyId("Mobile app"), expiration: 2 * 86_400_000 });
    await keyring.rerollKey({ keyId: keyId("Billing worker"), expiration: 86_400_000 });
    await keyring.rerollKey({ keyId: keyId("Old laptop"), expiration: 86_400_000 });
    await keyring.rerollKey({ keyId: keyId("Nightly export"), expiration: 0 });
    const { text } = await browser.get("/keys?state=replaced");
    expect(text).toContain('<option value="replaced" selected>Replaced, still valid</option>');
    const rows = [...text.matchAll(/<tr role="row"><td.*?href="([^"]*)"/gs)].map(([, href]) => href);
    expect(rows).toEqual([key("Billing worker"), key("Mobile app")]);
    expect((await browser.get("/keys?state=replaced&externalId=acme")).text).not.toContain("Billing worker");
  });

  it("a search finds owners too, by a part of their names or the whole, as a group of its own", async () => {
    const { browser, keyring, store } = await signedIn();
    for (let i = 0; i < 9; i++) await keyring.createIdentity({ externalId: `customer ${i}` });
    const group = async (query: string, as = browser) => {
      const { text } = await as.get(`/keys?${query}`);
      const section = /<h2>Owners<\/h2>(.*?)<\/section>/s.exec(text)?.[1] ?? "";
      return [...section.matchAll(/href="(\/owners[^"]*)"/g)].map(([, href = ""]) => href);
    };
    const owners = async (...of: Parameters<typeof group>) =>
      (await group(...of)).filter((href) => !href.includes("?"));
    expect(await owners("search=acm")).toEqual(["/owners/acme"]);
    expect((await browser.get("/keys?search=acme")).text).toMatch(/data-title="Keys"><div>2</);
    expect(await owners("search=ACM&order=expires")).toEqual(["/owners/acme"]);
    expect(await owners("search=customer+7")).toEqual(["/owners/customer%207"]);
    const all = await group("search=customer");
    expect(all).toHaveLength(6);
    expect(all).toContain("/owners?search=customer");
    await keyring.createIdentity({ externalId: "customer" });
    expect((await group("search=customer")).filter((href) => href === "/owners/customer")).toHaveLength(1);
    for (const query of ["search=mobile", "", "externalId=acme", "search=acm&externalId=acme"])
      expect([query, await owners(query)]).toEqual([query, []]);
    const { key } = await keyring.createRootKey({ permissions: ["api.*.read_key", "api.*.read_api"] });
    const stranger = client(store);
    await stranger.signIn(key);
    expect(await group("search=acm", stranger)).toEqual([]);
  });

  it("a key that was rotated away, and one of a disabled API, have a state and a filter of their own", async () => {
    const { browser, keyring, apiId, key, keyId } = await signedIn();
    await keyring.rerollKey({ keyId: keyId("Mobile app"), expiration: 0 });
    expect((await browser.get(key("Mobile app"))).text).toContain("Replaced, ended");
    for (const state of ["rotated", "expired"])
      expect((await browser.get(`/keys?state=${state}`)).text).toContain(key("Mobile app"));
    await keyring.updateApi({ apiId, enabled: false });
    expect((await browser.get(key("Billing worker"))).text).toContain("API disabled");
    expect((await browser.get("/keys?state=forbidden")).text).toMatch(/Billing worker.*?API disabled/s);
    expect((await browser.get("/keys?state=active")).text).not.toContain("Billing worker");
  });
});

describe("console: what verify would return", () => {
  it("says the first check that fails, what each finds, and where a query is wrong", async () => {
    const { browser, key } = await signedIn();
    const { text } = await browser.get(`${key("Mobile app")}?query=documents.read+AND+exports.run&address=203.0.113.9`);
    expect(text).toContain(">INSUFFICIENT_PERMISSIONS<");
    expect(text).toContain("<strong>Permissions</strong>");
    expect(text).toMatch(/documents\.read<\/bdi><\/code> <span class="ks-badge ks-good">present/);
    expect(text).toMatch(/exports\.run<\/bdi><\/code> <span class="ks-badge ks-bad">missing/);
    const wrong = (await browser.get(`${key("Mobile app")}?query=${encodeURIComponent("a AND OR b")}`)).text;
    expect(wrong).toContain(`<bdi>a AND OR b</bdi>\n${" ".repeat(6)}^`);
    const cost = await browser.get(`${key("Mobile app")}?cost=x`);
    expect([cost.status, cost.text]).toEqual([200, expect.stringContaining('role="alert"')]);
  });

  it("is the code that verify returns, for any key and any request", async () => {
    const store = sqliteStore(":memory:");
    const keyring = createKeyring(store, { clock: () => NOW });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key: rootKey } = await keyring.createRootKey({ permissions: allPermissions() });
    const verifier = createVerifier(store, { clock: () => NOW, storeTimeout: 5_000 });
    const browser = client(store, { verifier });
    await browser.signIn(rootKey);
    const name = fc.constantFrom("a", "a.b", "b", "c.d");
    const query = fc
      .array(name, { minLength: 1, maxLength: 3 })
      .chain((names) => fc.constantFrom(" AND ", " OR ").map((word) => names.join(word)));
    const given = fc.record({
      enabled: fc.boolean(),
      expires: fc.constantFrom(undefined, NOW - 1, NOW, NOW + 1),
      permissions: fc.uniqueArray(fc.constantFrom("a", "a.*", "b", "*"), { maxLength: 3 }),
      remaining: fc.constantFrom(undefined, 0, 1, 5),
      limit: fc.constantFrom(undefined, 1, 3),
      allow: fc.boolean(),
      query: fc.option(query, { nil: undefined }),
      cost: fc.constantFrom(undefined, 0, 1, 2, 5),
      address: fc.constantFrom(undefined, "203.0.113.1", "198.51.100.1"),
      used: fc.integer({ min: 0, max: 2 }),
    });
    await fc.assert(
      fc.asyncProperty(
        given,
        async ({ enabled, expires, permissions, remaining, limit, allow, query: text, cost, address, used }) => {
          const { keyId, key } = await keyring.createKey({
            ...{ apiId, enabled, permissions },
            ...(remaining !== undefined && { credits: { remaining } }),
            ...(limit !== undefined && {
              ratelimits: [{ name: "requests", limit, duration: 60_000, autoApply: true }],
            }),
            ...(allow && { ipAllowlist: ["203.0.113.0/24"] }),
          });
          if (expires !== undefined) await keyring.updateKey({ keyId, expires });
          const context = address === undefined ? {} : { clientAddress: address };
          for (let i = 0; i < used; i++) await verifier.verify({ key }, context);
          const asked = new URLSearchParams({
            query: text ?? "",
            cost: cost === undefined ? "" : String(cost),
            address: address ?? "",
          });
          const page = await browser.get(`/keys/${keyId}?${asked.toString()}`);
          const shown = /<p class="ks-verdict"><span class="ks-badge ks-\w+">(\w+)</.exec(page.text)?.[1];
          const request = {
            key,
            ...(text !== undefined && { permissions: text }),
            ...(cost !== undefined && { credits: { cost } }),
          };
          expect(shown).toBe((await verifier.verify(request, context)).code);
        },
      ),
      { numRuns: runs(1_000) },
    );
    await verifier.close();
  });
});

describe("console: usage", () => {
  const DAY = 86_400_000;
  /** A month of counted calls: acme's keys spend, one of nobody's is refused. */
  async function used(options: Parameters<typeof signedIn>[0] = {}) {
    const seeded = await signedIn(options);
    for (const [at, times] of [
      [NOW - 30 * DAY, 2],
      [NOW - 1_000, 3],
    ] as const) {
      const verifier = createVerifier(seeded.store, { clock: () => at, analytics: true });
      const call = (name: string, permissions: string) =>
        verifier.verify(
          { key: seeded.texts[name] ?? "", permissions, tags: ["plan=pro"] },
          { clientAddress: "203.0.113.1" },
        );
      for (let i = 0; i < times; i++) {
        await call("Mobile app", "documents.read");
        await call("Nightly export", "exports.run");
        await call("Nightly export", "admin");
        await call("Partner integration", "documents.read");
      }
      await verifier.close();
    }
    return seeded;
  }
  it("the list of owners has their keys, their calls of 30 days and what is left of their plans", async () => {
    const { browser, keyring, store } = await used();
    await keyring.grantCredits({ identity: "acme", grantId: "order 1", amount: 20 });
    const { text } = await browser.get("/owners");
    // The call of 30 days ago is of an earlier day.
    expect(cells(text, "acme")).toEqual([
      "Active",
      "2",
      "9",
      expect.stringMatching(/^4,\d{3} of 5,000 and 20 granted$/),
      "requests",
    ]);
    expect(cells(text, "initech")).toEqual(["Active", "1", "0", "no plan", "none"]);
    const reader = client(store);
    await reader.signIn((await keyring.createRootKey({ permissions: ["identity.*.read_identity"] })).key);
    expect(cells((await reader.get("/owners")).text, "acme").slice(0, 2)).toEqual(["Active", "not counted"]);
    expect((await reader.get("/owners")).text).not.toContain("Calls in 30 days");
  });

  /** What a table says of a line: the cells after its first. */
  const sum = (text: string, line: string): string | undefined =>
    new RegExp(`<dt>${line}</dt><dd>(?:<strong>)?([^<]*)<`).exec(text)?.[1];
  const cells = (text: string, line: string): string[] => {
    const row = text.split('<tr role="row">').find((one) => one.replace(/<[^>]*>/g, "").startsWith(line)) ?? "";
    return [...(row.split("</tr>")[0] ?? "").matchAll(/<div>(.*?)<\/div>/g)]
      .slice(1)
      .map(([, cell = ""]) => cell.replace(/<[^>]*>/g, ""));
  };

  it("a statement claims no balance where nothing is counted, and shows what was changed", async () => {
    const { browser, keyring, key } = await signedIn();
    await keyring.updateIdentityCredits({ identity: "acme", operation: "increment", value: 3, reason: "goodwill" });
    for (const page of ["/owners/acme", key("Billing worker"), "/owners/globex"]) {
      const { text } = await browser.get(`${page}/statement`);
      expect([page, text]).toEqual([page, expect.stringContaining("No balance of this month was counted")]);
      for (const claim of ["Opening", ">Now<", "Nothing", "was refused"]) expect(text).not.toContain(claim);
      if (page === "/owners/acme") expect(text).toContain("goodwill");
      expect((await browser.get(`${page}/statement?as=csv`)).text).toBe("day,what,credits,balance\r\n");
    }
  });

  it("a statement says what a month began and ended with, what was refused, and who changed what", async () => {
    const { browser, keyring, key } = await used();
    // Of the owner: a key's own credits are a cap inside them, and in no sum.
    const change = { identity: "acme", operation: "increment", value: 500, reason: "goodwill" } as const;
    await keyring.updateIdentityCredits(change);
    await keyring.grantCredits({ identity: "acme", grantId: "order 1", amount: 20, reason: "bonus" });
    const { text } = await browser.get("/owners/acme/statement");
    expect(text).toContain("<h1>Statement of November 2026</h1>");
    const lines = ["Opening", "Refills", "Granted", "Adjustments", "Spent", "Lost with verifiers", "Now"];
    const sums = (shown: string) =>
      lines.map((line) => Number(sum(shown, line)?.replace("−", "-").replace(/[+,]/g, "")));
    const [
      opening = NaN,
      refills = NaN,
      granted = NaN,
      adjustments = NaN,
      spent = NaN,
      forfeited = NaN,
      closing = NaN,
    ] = sums(text);
    const rest = refills + granted + adjustments + spent + forfeited;
    expect([spent, granted, adjustments, opening + rest]).toEqual([-6, 20, 500, closing]);
    for (const shown of ["goodwill", "order 1", "bonus", "+500", "+20", "Balances"]) expect(text).toContain(shown);
    expect(cells(text, "INSUFFICIENT_PERMISSIONS")).toEqual(["3"]);
    expect(text).toContain("Update owner credits");
    const before = /href="([^"]*)">Previous month/.exec(text)?.[1] ?? "";
    expect(before).toBe("/owners/acme/statement?month=2026-10");
    const october = (await browser.get(before)).text;
    expect(sum(october, "Spent")).toBe("−4");
    expect(sum(october, "Closing")).toBe(opening.toLocaleString("en-US"));
    expect(october).toContain('href="/owners/acme/statement?month=2026-11">Next month');
    expect(text).not.toContain("Next month");
    const own = (await browser.get(`${key("Mobile app")}/statement`)).text;
    expect([sum(own, "Spent"), own.includes("Mobile app")]).toEqual(["−3", true]);
    for (const page of ["/owners/acme", key("Mobile app")])
      expect((await browser.get(page)).text).toContain(`href="${page}/statement"`);
    const [, csv = ""] = /href="([^"]*)">Download as CSV/.exec(text) ?? [];
    const file = await browser.get(csv.replaceAll("&amp;", "&"));
    expect(file.headers.get("content-disposition")).toBe('attachment; filename="statement-2026-11.csv"');
    expect(file.text).toMatch(/^day,what,credits,balance\r\n2026-11-01,opening,,\d+\r\n/);
    expect(file.text).toContain(`2026-11-24,closing,,${closing}\r\n`);
    const september = (await browser.get("/owners/acme/statement?month=2026-09")).text;
    expect([september.includes("No balance of this month was counted"), sum(september, "Closing")]).toEqual([
      ...[true, undefined],
    ]);
    expect((await browser.get("/owners/acme/statement?month=2026-13")).status).toBe(400);
    expect((await browser.get("/owners/nobody/statement")).status).toBe(404);
  });

  it("is for who may read it: of the keys of an API, or of all; changes for who may read the trail", async () => {
    const { store, apiId, keyring, key } = await used();
    const as = async (...permissions: string[]) => {
      const { key: rootKey } = await keyring.createRootKey({ permissions });
      const browser = client(store, { clientAddress: () => undefined });
      await browser.signIn(rootKey);
      return browser;
    };
    const reading = ["api.*.read_key", "api.*.read_api", "identity.*.read_identity"];
    const none = await as(...reading);
    const one = await as(...reading, `api.${apiId}.read_analytics`);
    const all = await as(...reading, "api.*.read_analytics");
    const mobile = `${key("Mobile app")}/statement`;
    const nightly = `${key("Nightly export")}/statement`;
    const statuses = async (browser: Client) => [
      (await browser.get(mobile)).status,
      (await browser.get(nightly)).status,
      (await browser.get("/owners/acme/statement")).status,
    ];
    expect(await statuses(none)).toEqual([403, 403, 403]);
    expect(await statuses(one)).toEqual([200, 403, 403]);
    expect(await statuses(all)).toEqual([200, 200, 200]);
    expect((await none.get(key("Mobile app"))).text).not.toContain("/statement");
    expect((await one.get("/owners/acme")).text).not.toContain("/statement");
    expect((await one.get(key("Mobile app"))).text).toContain("Last 30 days");
    expect((await all.get("/owners/acme/statement")).text).not.toContain("Changes");
  });

  it("the overview says who used and who spent most, by their names", async () => {
    const { browser, keyring, keyId } = await used();
    const first = (text: string, column: string) =>
      /<td[^>]*><div>(.*?)<\/div>/.exec(text.split(`>Most used: ${column}<`)[1] ?? "")?.[1]?.replace(/<[^>]*>/g, "");
    const { text } = await browser.get("/");
    expect([first(text, "Owner"), first(text, "Tag"), cells(text, "plan=pro")]).toEqual([
      "acme",
      "plan=pro",
      ["12", "6"],
    ]);
    expect(first(text, "Key")).toBe("Nightly export");
    const spent = (await browser.get("/?top=spent")).text;
    expect(spent).toContain("Who spent most");
    expect(first(spent, "Owner")).toBe("acme");
    await keyring.deleteKey({ keyId: keyId("Nightly export") });
    expect((await browser.get("/")).text).toContain(keyId("Nightly export"));
  });

  it("of an owner is told by key and by tag, most first, in either order", async () => {
    const { browser } = await used();
    const { text } = await browser.get("/owners/acme");
    const part = text.split("By key and by tag")[1] ?? "";
    const lines = ["Nightly export", "Mobile app", "plan=pro"].map((line) => cells(part, line));
    expect(lines).toEqual([
      ["6", "3"],
      ["3", "3"],
      ["9", "6"],
    ]);
    expect(text).toContain('href="/owners/acme?top=spent">Order by credits');
    expect((await browser.get("/owners/acme?top=spent")).text).toContain("Order by verifications");
    expect((await browser.get("/owners/globex")).text.split("By key and by tag")[1]).not.toContain("Nightly export");
  });

  it("of a key says how fast its credits go; a list has two weeks of each key", async () => {
    const { browser, key } = await used();
    const { text } = await browser.get(key("Mobile app"));
    expect(text.replace(/<[^>]*>/g, "")).toMatch(/1 a day in two weeks, used up in \d+ mo without a refill/);
    const list = (await browser.get("/keys?search=mobile")).text;
    expect(list).toMatch(/data-title="14 days"><div><span class="ks-trend"><svg class="ks-spark"[^>]*>.*<\/svg> 3</);
  });

  it("is not added up where that would take too long, and of no other workspace", async () => {
    const { store, browser, rootKey } = await used();
    expect((await browser.get("/")).text).toContain("Busiest day");
    const small = client(store, { analytics: createAnalytics(store, { maxRows: 1 }) });
    await small.signIn(rootKey);
    const { status, text } = await small.get("/");
    expect([status, text.match(/Too many to add up/g)?.length]).toEqual([200, 4]);
    const { key } = await createKeyring(store, { workspaceId: "ws_other" }).createRootKey({
      permissions: ["api.*.read_analytics"],
    });
    const other = client(store, { analytics: createAnalytics(store), clientAddress: () => undefined });
    await other.signIn(key);
    expect((await other.get("/")).text).toContain("No calls recorded yet");
  });

  it("what is left of credits and limits is a bar where there is a whole", async () => {
    const { store, rootKey, keys, texts } = await seed();
    const verifier = createVerifier(store, { clock: () => NOW });
    await verifier.verify({ key: texts["Nightly export"] ?? "", credits: { cost: 4_000 } });
    const browser = client(store, { verifier });
    await browser.signIn(rootKey);
    const { text } = await browser.get(`/keys/${keys["Mobile app"]}`);
    expect(text).toContain("<dt>Left</dt><dd><strong>37</strong></dd>");
    expect(text).toMatch(/<dd>100 every day<.*<dt>Balance then<\/dt><dd>137 </);
    expect(cells(text, "requests")).toEqual(["100 per min", "every call", "this key", "100 left"]);
    const owner = (await browser.get("/owners/acme")).text;
    expect(owner).toMatch(/<strong>200<.*<dt>Balance then<\/dt><dd>5,200 /);
    expect(cells(owner, "requests")).toEqual(["1,000 per min", "every call", "all its keys", "999 left"]);
    const blind = client(store, { clientAddress: () => undefined });
    await blind.signIn(rootKey);
    expect((await blind.get("/owners/acme")).text).toContain("not available in this console");
    // A limit that the console does not see may refuse what it calls VALID.
    const own = (await blind.get(`/keys/${keys["Partner integration"]}`)).text;
    expect(own).toContain("This call would pass. Nothing was taken.");
    const limited = (await blind.get(`/keys/${keys["Mobile app"]}?address=203.0.113.1`)).text;
    expect(limited).toContain("This call would pass, unless a rate limit refuses it.");
    expect(cells(limited, "Rate limits")).toEqual(["not known", "Not available in this console: requests"]);
    await verifier.close();
  });
});

describe("console: plans", () => {
  const PLAN = {
    interval: "monthly",
    amount: "10,000",
    refillDay: "1",
    timeZone: "",
    rollover: "0",
    now: "difference",
  };
  const REFILL = { interval: "monthly", amount: 10_000, refillDay: 1, rollover: 0 };
  const HOLDERS = ["owner", "key"] as const;

  async function holding(kind: (typeof HOLDERS)[number]) {
    const world = await signedIn();
    const { keyring, keyId, key, browser } = world;
    const isKey = kind === "key";
    const to = isKey ? key("Mobile app") : "/owners/acme";
    const named = isKey ? { keyId: keyId("Mobile app") } : { identity: "acme" };
    const credits = async () =>
      (await (isKey ? keyring.getKey({ keyId: keyId("Mobile app") }) : keyring.getIdentity({ identity: "acme" })))
        .credits;
    const send = (form: string, fields: Record<string, string>) =>
      browser.submit(`${to}/${form}`, `${to}/${form}`, fields);
    return { ...world, to, named, credits, send };
  }

  it.each(HOLDERS)("the plan of an %s is changed in every field, with what it gives more at once", async (kind) => {
    const { send, credits, to, browser, keyring } = await holding(kind);
    const before = await credits();
    const more = 10_000 - (before?.refill?.amount ?? 0);
    const answer = await send("plan", { ...PLAN, reason: "upgrade" });
    expect([answer.status, answer.headers.get("location")]).toEqual([303, `${to}?notice=plan`]);
    expect(await credits()).toEqual({ ...before, remaining: (before?.remaining ?? 0) + more, refill: REFILL });
    const { text } = await browser.get(to);
    expect(text).toContain("10,000 on day 1 of each month, unused ones expire");
    expect((await browser.get(`${to}/plan`)).text).toMatch(/name="rollover"[^>]* value="0"/);
    expect((await keyring.listAudit()).data[0]).toMatchObject({ operation: "changePlan", reason: "upgrade" });
  });

  it.each(HOLDERS)(
    "%s: a plan without its amount, or a rollover or refill that is emptied unticked, is refused",
    async (kind) => {
      const { send, credits, keyring } = await holding(kind);
      await send("plan", PLAN);
      const before = await credits();
      for (const [fields, place, said] of [
        [{ ...PLAN, amount: "" }, "amount", "Enter a whole number."],
        [{ ...PLAN, interval: "weekly", refillDay: "" }, "refillDay", "Enter a whole number from 1 to 31."],
        [{ ...PLAN, timeZone: "Mars/Olympus" }, "timeZone", "must be a time zone"],
        [{ ...PLAN, rollover: "" }, "rollover", "Tick the box below"],
        [{ ...PLAN, interval: "" }, "interval", "Tick the box below"],
      ] as const) {
        const { status, text } = await send("plan", fields);
        expect([place, status, text]).toEqual([place, 400, expect.stringContaining(`id="ks-${place}-problem"`)]);
        expect(text).toContain(said);
        expect(await credits()).toEqual(before);
      }
      expect((await send("plan", { ...PLAN, rollover: "", confirm: "on" })).status).toBe(303);
      expect((await credits())?.refill).not.toHaveProperty("rollover");
      const without = { ...PLAN, interval: "", confirm: "on", reason: "ticket 7" };
      expect((await send("plan", without)).status).toBe(303);
      expect((await keyring.listAudit()).data[0]).toMatchObject({ reason: "ticket 7" });
      expect(await credits()).toEqual({ remaining: before?.remaining });
    },
  );

  it.each(["/owners/globex", "key"])(
    "%s: without credits the form sets a first balance, and an empty one is refused",
    async (of) => {
      const { browser, keyring, key, keyId } = await signedIn();
      const to = of === "key" ? key("Old laptop") : of;
      if (of !== "key") await keyring.updateIdentity({ identity: "globex", meta: { tier: "gold" } });
      const send = (fields: Record<string, string>) => browser.submit(`${to}/plan`, `${to}/plan`, fields);
      const credits = async () =>
        of === "key"
          ? (await keyring.getKey({ keyId: keyId("Old laptop") })).credits
          : (await keyring.getIdentity({ identity: "globex" })).credits;
      for (const fields of [{}, { ...PLAN }]) {
        const { status, text } = await send({ remaining: "", ...fields });
        expect([status, text]).toEqual([400, expect.stringContaining('id="ks-remaining-problem"')]);
        expect(await credits()).toBeUndefined();
      }
      expect((await send({ ...PLAN, remaining: "7" })).status).toBe(303);
      expect(await credits()).toEqual({ remaining: 7, refill: REFILL });
      if (of !== "key") expect((await browser.get(to)).text).toContain("gold");
    },
  );

  it.each(HOLDERS)(
    "%s: credits are granted once for an id, and each grant is shown with what is left of it",
    async (kind) => {
      const { send, named, to, browser, keyring } = await holding(kind);
      const grant = {
        credits: "5,000",
        grantId: "order_1",
        expires: "2090-01-02T03:04",
        priority: "7",
        reason: "bonus",
      };
      for (const notice of ["granted", "known"])
        expect((await send("grant", grant)).headers.get("location")).toBe(`${to}?notice=${notice}`);
      const { grants } = await keyring.listGrants(named);
      expect(grants).toMatchObject([
        { grantId: "order_1", amount: 5_000, expires: Date.UTC(2090, 0, 2, 3, 4), priority: 7, reason: "bonus" },
      ]);
      const { text } = await browser.get(to);
      for (const shown of ["order_1", "5,000 of 5,000", "bonus", "in 63 y"]) expect(text).toContain(shown);
      expect((await browser.get(`${to}/end-grant`)).text).toContain("order_1: 5,000 of 5,000 left");
      for (const [name, value] of [
        ["credits", ""],
        ["credits", "many"],
        ["priority", "256"],
        ["expires", "soon"],
      ] as const) {
        const bad = await send("grant", { ...grant, grantId: "other", [name]: value });
        expect([name, bad.status, bad.text]).toEqual([name, 400, expect.stringContaining(`id="ks-${name}-problem"`)]);
      }
      expect((await keyring.listGrants(named)).grants).toHaveLength(1);
      const end = await send("end-grant", { grantId: "order_1", reason: "refund" });
      expect(end.headers.get("location")).toBe(`${to}?notice=ended`);
      expect((await keyring.listGrants(named)).grants).toEqual([]);
      expect((await browser.get(to)).text).not.toContain("End a grant");
    },
  );

  it("a list of keys shows what can be spent with the grants", async () => {
    const { browser, keyring, keyId } = await signedIn();
    const shown = async () => {
      const { text } = await browser.get("/keys?externalId=acme");
      return [...text.matchAll(/data-title="Credits"><div>(.*?)<\/div>/g)]
        .map(([, one = ""]) => one.replace(/<[^>]*>/g, ""))
        .sort();
    };
    expect(await shown()).toEqual(["37", "4,200 owner&#39;s"]);
    await keyring.grantCredits({ identity: "acme", amount: 800 });
    await keyring.grantCredits({ keyId: keyId("Mobile app"), amount: 3 });
    expect(await shown()).toEqual(["40", "5,000 owner&#39;s"]);
  });

  it("a form that two consoles are sent pays once: credits, plan and grant", async () => {
    const { browser, store, rootKey, keyring } = await signedIn();
    const other = client(store);
    await other.signIn(rootKey);
    const left = async () => {
      const { remaining, granted } = (await keyring.getIdentity({ identity: "acme" })).credits ?? {};
      return [remaining, granted];
    };
    for (const [form, fields, after] of [
      ["credits", { operation: "increment", value: "10", reason: "sorry" }, [4_210, undefined]],
      ["plan", PLAN, [9_210, undefined]],
      ["grant", { credits: "50", grantId: "", expires: "", priority: "", reason: "" }, [9_210, 50]],
    ] as const) {
      const page = form === "credits" ? "/owners/acme" : `/owners/acme/${form}`;
      const { once = "" } = hiddenOf((await browser.get(page)).text, `/owners/acme/${form}`);
      for (const one of [browser, other])
        expect((await one.submit(page, `/owners/acme/${form}`, { ...fields, once })).status).toBe(303);
      expect(await left()).toEqual(after);
      // The same console knows the form, and says so.
      expect((await browser.submit(page, `/owners/acme/${form}`, { ...fields, once })).status).toBe(409);
      expect(await left()).toEqual(after);
    }
  });

  it("an owner without rights to change it is shown with what is left, and without forms", async () => {
    const { store, keyring } = await signedIn();
    await keyring.grantCredits({ identity: "acme", grantId: "order_1", amount: 5 });
    const permissions = ["identity.*.read_identity"];
    const { key: rootKey } = await keyring.createRootKey({ permissions });
    const reader = client(store);
    await reader.signIn(rootKey);
    const { text } = await reader.get("/owners/acme");
    expect(text).toContain("5 of 5");
    expect(text).not.toMatch(/Change plan|Grant credits|owners\/acme\/credits/);
    expect((await reader.get("/owners/acme/grant")).status).toBe(403);
  });
});

describe("console: reasons, and what things were", () => {
  it("old and new values stand in words, of metadata that it changed", async () => {
    const { browser, keyring, key, keyId } = await signedIn();
    const mobile = keyId("Mobile app");
    await keyring.updateKey({
      ...{ keyId: mobile, name: HOSTILE[0]!, enabled: false, expires: Date.UTC(2027, 0, 5), meta: { plan: "max" } },
      ...{ permissions: ["documents.write"], ipAllowlist: [], externalId: "globex" },
      ratelimits: [{ name: "requests", limit: 200, duration: 60_000, autoApply: true }],
    });
    await keyring.updateKey({ keyId: mobile, expires: null, enabled: true });
    await keyring.changePlan({ identity: "acme", refill: { interval: "daily", amount: 9 } });
    const { text } = await browser.get("/audit");
    const cells = [...text.matchAll(/data-title="Changed"><div>(.*?)<\/div><\/td>/g)].map(([, cell = ""]) =>
      cell
        .split(/<\/?div>/)
        .map((line) => line.replace(/<[^>]*>/g, ""))
        .filter((line) => line !== ""),
    );
    expect(cells[0]).toEqual(["refill: 5,000 on day 1 of each month → 9 every day", "credits"]);
    expect(cells[1]).toEqual(["enabled: no → yes", "expires: 2027-01-05 00:00:00 UTC → never"]);
    expect(cells[2]).toEqual([
      "enabled: yes → no",
      "expires: 2026-12-06 12:00:00 UTC → 2027-01-05 00:00:00 UTC",
      "owner: acme → globex",
      "allowed addresses: − 203.0.113.0/24, − 2001:db8::/32",
      "name: Mobile app → &lt;script&gt;window.hurt=1&lt;/script&gt;",
      "permissions: − documents.read, + documents.write",
      "ratelimits: − requests 100/60 auto, + requests 200/60 auto",
      "metadata",
    ]);
    expect((await browser.get(key("Mobile app"))).text).toContain("enabled: yes → no");
  });

  it("every form that stops, changes or replaces takes one, and the trail shows it", async () => {
    const { browser, key, keys, keyring } = await signedIn();
    const { rootKeyId } = await keyring.createRootKey({ permissions: [] });
    const chosen = `/keys/stop?key=${keys["Billing worker"]}`;
    const forms: readonly (readonly [page: string, action: string, fields?: Record<string, string>])[] = [
      [`${key("nameless")}/edit`, `${key("nameless")}/edit`, { name: "Renamed" }],
      [`${key("Mobile app")}/disable`, `${key("Mobile app")}/disable`],
      [`${key("Nightly export")}/rotate`, `${key("Nightly export")}/rotate`, { expiration: "0" }],
      [`${key("Trial")}/revoke`, `${key("Trial")}/revoke`, { typed: "initech" }],
      [chosen, "/keys/stop/disable"],
      [chosen, "/keys/stop/revoke", { typed: "1" }],
      ["/owners/acme/disable", "/owners/acme/disable"],
      ["/owners/acme/edit", "/owners/acme/edit", { expires: "2090-01-02T03:04", ratelimits: "calls 5/60" }],
      ["/owners/acme/edit", "/owners/acme/delete", { typed: "acme" }],
      [`/root-keys/${rootKeyId}`, `/root-keys/${rootKeyId}`, { typed: rootKeyId }],
    ];
    for (const [i, [page, action, fields = {}]] of forms.entries()) {
      const { text } = await browser.get(page);
      const ids = [...text.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
      expect([page, ids.length]).toEqual([page, new Set(ids).size]);
      const reason = `ticket ${i} of ${action}`;
      const done = await browser.post(action, { ...filledOf(text, action), ...fields, reason });
      expect([action, done.status]).toEqual([action, expect.toBeOneOf([200, 303]) as unknown]);
      expect([action, (await keyring.listAudit({ limit: 20 })).data.map((entry) => entry.reason)]).toEqual([
        action,
        expect.arrayContaining([reason]),
      ]);
      expect((await browser.get("/audit")).text).toContain(reason);
    }
    const refused = await browser.submit(`${key("Nightly export")}/disable`, `${key("Nightly export")}/disable`, {
      reason: "x".repeat(256),
    });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('id="ks-reason-problem"')]);
  });
});

describe("console: owners, roles, limits", () => {
  it("owners are made, changed and deleted", async () => {
    const { browser, keyring } = await signedIn();
    await browser.submit("/owners/new", "/owners/new", { externalId: "umbrella", ratelimits: "requests 10/1 auto" });
    const limits = async (identity: string) => (await keyring.getIdentity({ identity })).ratelimits;
    expect(await limits("umbrella")).toMatchObject([{ name: "requests", limit: 10, duration: 1_000, autoApply: true }]);
    await browser.submit("/owners/umbrella/edit", "/owners/umbrella/edit", { ratelimits: "", confirm: "on" });
    expect(await limits("umbrella")).toBeUndefined();
    await browser.submit("/owners/acme", "/owners/acme/credits", { operation: "increment", value: "800" });
    expect((await browser.get("/owners/acme")).text).toContain("5,000");
    expect((await browser.submit("/owners/acme/edit", "/owners/acme/delete", { typed: "acm" })).status).toBe(400);
    await browser.submit("/owners/acme/edit", "/owners/acme/delete", { typed: "acme" });
    await expect(keyring.getIdentity({ identity: "acme" })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("an owner is disabled and enabled, and ends when the form says so", async () => {
    const { browser, keyring } = await signedIn();
    const state = async () => {
      const { enabled, expires } = await keyring.getIdentity({ identity: "acme" });
      return [enabled, expires];
    };
    await browser.submit("/owners/acme/disable", "/owners/acme/disable");
    expect(await state()).toEqual([false, undefined]);
    const page = (await browser.get("/owners/acme")).text;
    expect(page).toContain("Disabled");
    expect(page).toContain("Owner disabled");
    expect((await browser.get("/keys?state=forbidden")).text).toMatch(/Mobile app.*Owner disabled/s);
    const edit = (fields: Record<string, string>) =>
      browser.submit("/owners/acme/edit", "/owners/acme/edit", { ratelimits: "calls 5/60", ...fields });
    expect((await edit({ expires: "2090-01-02T03:04" })).status).toBe(303);
    expect(await state()).toEqual([false, Date.UTC(2090, 0, 2, 3, 4)]);
    await browser.submit("/owners/acme", "/owners/acme/enable");
    expect((await edit({ expires: "" })).status, "never is ticked").toBe(400);
    expect((await edit({ expires: "", confirm: "on" })).status).toBe(303);
    expect(await state()).toEqual([undefined, undefined]);
  });

  it("a new owner is given a plan, and one without is not made by an amount that is missing", async () => {
    const { browser, keyring } = await signedIn();
    const create = (fields: Record<string, string>) =>
      browser.submit("/owners/new", "/owners/new", { externalId: "umbrella", ratelimits: "", ...fields });
    const plan = { interval: "weekly", amount: "1,000", refillDay: "1", timeZone: "Europe/Berlin", rollover: "0" };
    const bad = await create(plan);
    expect([bad.status, bad.text]).toEqual([400, expect.stringContaining('id="ks-remaining-problem"')]);
    expect((await create({ ...plan, remaining: "500" })).status).toBe(303);
    const refill = { interval: "weekly", amount: 1_000, refillDay: 1, timeZone: "Europe/Berlin", rollover: 0 };
    expect((await keyring.getIdentity({ identity: "umbrella" })).credits).toEqual({ remaining: 500, refill });
  });

  it("roles and overrides too", async () => {
    const { browser, keyring } = await signedIn();
    const { headers } = await browser.submit("/roles/new", "/roles/new", { name: "admin", permissions: "a\nb" });
    const path = (headers.get("location") ?? "").replace(/\?.*/, "");
    await browser.submit(path, path, { permissions: "c" });
    expect((await keyring.getRole({ role: "admin" })).permissions).toMatchObject([{ slug: "c" }]);
    await browser.submit(path, `${path}/delete`, { typed: "admin" });
    await expect(keyring.getRole({ role: "admin" })).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect((await browser.get("/limits")).text).toContain("No namespace yet");
  });

  it("an import is tried before it is made, with its problems counted", async () => {
    const { browser, keyring, apiId } = await signedIn();
    const { migrationId } = await keyring.createMigration({ id: "mig_2019", algorithm: "sha256" });
    const hash = (digit: string) => digit.repeat(64);
    const keys = JSON.stringify([{ hash: hash("a"), name: "" }, { hash: hash("b"), name: "" }, { hash: hash("c") }]);
    const fields = { migrationId, apiId, keys, way: "import" };
    const dry = await browser.submit("/import", "/import", { ...fields, way: "check" });
    expect(dry.text).toMatch(/name .*<\/div><\/td><td[^>]*><div>2</s);
    const tried = JSON.stringify([{ hash: hash("c") }, { hash: hash("c") }, { hash: "short" }]);
    const trial = await browser.submit("/import", "/import", { ...fields, keys: tried, way: "check" });
    expect(trial.text).toContain("1 key would go in, 2 would fail; nothing was stored.");
    expect(trial.text).toMatch(/ALREADY_EXISTS.*INVALID_HASH/s);
    expect(
      (await browser.submit("/import", "/import", { ...fields, keys: JSON.stringify([{ hash: hash("c") }]) })).text,
    ).toContain("1 key imported, 0 failed.");
    const again = await browser.submit("/import", "/import", {
      ...fields,
      keys: JSON.stringify([{ hash: hash("c") }, { hash: hash("d") }, { hash: "short" }, { hash: "other" }]),
    });
    expect(again.text).toContain("1 key imported, 3 failed.");
    expect(again.text).toMatch(/INVALID_HASH<\/div><\/td><td[^>]*><div>2</);
    expect((await browser.get("/keys")).text.match(/<tr role="row">/g)).toHaveLength(10);
    expect((await browser.submit("/import", "/import", { ...fields, keys: "[" })).status).toBe(400);
  });

  it("an import refuses times in seconds, and imports nothing unless it is asked to", async () => {
    const { browser, keyring, apiId } = await signedIn();
    const { migrationId } = await keyring.createMigration({ id: "mig_2019", algorithm: "sha256" });
    const row = { hash: "a".repeat(64), expires: 1_893_456_000 };
    const send = (more: object) =>
      browser.submit("/import", "/import", { migrationId, apiId, keys: JSON.stringify([row]), ...more });
    const tried = await send({ way: "check" });
    expect(tried.text).toContain("so that none would go in");
    expect(tried.text).toContain("expires must be in milliseconds, not seconds");
    const refused = await send({ way: "import" });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("did you mean 1893456000000?")]);
    const keys = JSON.stringify([{ ...row, expires: 1_893_456_000_000 }]);
    for (const lost of [{}, { way: "" }, { way: "off" }, { dry: "off" }])
      expect([lost, (await send({ keys, ...lost })).status]).toEqual([lost, 400]);
    expect((await send({ keys, way: "check" })).text).toContain("1 key would go in");
    expect((await send({ keys, way: "import" })).text).toContain("1 key imported, 0 failed.");
  });

  it("a date is one that a date field sends, and nothing that only looks like one", async () => {
    const { browser, keyring, apiId, keyId } = await signedIn();
    const edit = `/keys/${keyId("Billing worker")}/edit`;
    for (const expires of [
      "1.5",
      "Jan 5",
      "key 5",
      "2027",
      "5",
      "2027-02-31T00:00",
      "2027-01-01T24:00",
      "1893456000",
    ]) {
      for (const [path, more] of [
        ["/keys/new", { apiId }],
        ["/owners/new", { externalId: `of ${expires}` }],
        ["/owners/acme/grant", { credits: "1" }],
        [edit, { name: "Billing worker" }],
      ] as const) {
        const { status, text } = await browser.submit(path, path, { ...more, expires });
        expect([expires, path, status, text]).toEqual([
          ...[expires, path, 400],
          expect.stringMatching(/id="ks-expires-problem">Enter a date and a time/),
        ]);
      }
      expect([expires, (await browser.get(`/audit?from=${encodeURIComponent(expires)}`)).status]).toEqual([
        expires,
        400,
      ]);
    }
    for (const expires of ["2027-02-28", "2027-02-28T10:30", "2027-02-28T10:30:15", "2027-02-28T10:30:15.5"]) {
      await browser.submit("/owners/new", "/owners/new", { externalId: `of ${expires}`, expires });
      const { expires: at } = await keyring.getIdentity({ identity: `of ${expires}` });
      expect(new Date(at ?? 0).toISOString().startsWith(expires)).toBe(true);
    }
  });

  it("a permission query is explained", async () => {
    const { browser } = await signedIn();
    const { text } = await browser.get("/query?query=a.b+AND+c+OR+d&granted=a.*,d");
    expect(text).toContain(">satisfied<");
    expect(text).toContain("((a.b AND c) OR d)");
    expect((await browser.get("/query?query=a+AND")).text).toContain("\n     ^");
  });
});

describe("console: callers", () => {
  const post = (browser: Client, path: string) => browser.submit("/", path, { csrf: "" });

  it("a page of each kind is seen by whoever may, and a 403 for others, who get no link to it", async () => {
    const seeded = await seed();
    const keyring = createKeyring(seeded.store, { clock: () => NOW });
    const { key } = await keyring.createRootKey({ permissions: ["ratelimit.*.limit"] });
    const [all, none] = [client(seeded.store), client(seeded.store, { clientAddress: () => undefined })];
    await all.signIn(seeded.rootKey);
    await none.signIn(key);
    const home = (await none.get("/")).text;
    const token = hiddenOf(home, "/sign-out")["csrf"] ?? "";
    for (const path of pathsOf(seeded)) {
      const page = PAGES.find((one) => new RegExp(`^${one.path.replace(":id", "[^/]+")}$`).test(path));
      const seen = await none.get(path);
      const isOpen = page?.needs === undefined;
      expect([path, seen.status]).toEqual([path, isOpen ? 200 : 403]);
      if (page?.act !== undefined)
        expect([path, (await none.post(path, { csrf: token, once: path })).status]).toEqual([path, 403]);
    }
    for (const { path, needs } of MENU.flat()) {
      expect([path, home.includes(`href="${path}"`)]).toEqual([path, needs === undefined]);
      expect([path, (await all.get("/")).text.includes(`href="${path}"`)]).toEqual([path, true]);
    }
    expect((await post(none, "/keys/new")).status).toBe(403);
  });

  it("sees keys of the APIs alone that it may read", async () => {
    const seeded = await seed();
    const keyring = createKeyring(seeded.store, { clock: () => NOW });
    const { key } = await keyring.createRootKey({
      permissions: [`api.${seeded.apiId}.read_key`, `api.${seeded.apiId}.read_api`],
    });
    const browser = client(seeded.store);
    await browser.signIn(key);
    const { text } = await browser.get("/keys");
    expect([text.includes("Mobile app"), text.includes("Nightly export")]).toEqual([true, false]);
    expect((await browser.get(`/keys/${seeded.keys["Nightly export"]}`)).status).toBe(404);
    const own = await browser.get(`/keys/${seeded.keys["Mobile app"]}`);
    for (const action of ["edit", "rotate", "revoke", "disable"]) expect(own.text).not.toContain(`/${action}"`);
  });

  it("of a console that only reads, nobody changes anything", async () => {
    const seeded = await seed();
    const only = client(seeded.store, { readOnly: true });
    await only.signIn(seeded.rootKey);
    const path = `/keys/${seeded.keys["Mobile app"]}`;
    const { text } = await only.get(path);
    expect(text).toContain("read only");
    for (const action of ["edit", "rotate", "revoke", "disable", "credits"])
      expect(text).not.toContain(`${path}/${action}`);
    const token = hiddenOf(text, "/sign-out")["csrf"] ?? "";
    for (const one of PAGES.filter(({ act, isRead }) => act !== undefined && isRead !== true)) {
      const sent = await only.post(one.path.replace(":id", seeded.keys["Mobile app"] ?? ""), {
        csrf: token,
        once: one.path,
      });
      expect([one.path, sent.status]).toEqual([one.path, 403]);
      expect(sent.text).toContain("this console only reads");
    }
    const found = await only.submit("/keys/find", "/keys/find", { key: seeded.texts["Mobile app"] ?? "" });
    expect([found.status, found.headers.get("location")]).toEqual([303, `${path}?notice=found`]);
    expect((await only.submit("/", "/sign-out")).status).toBe(303);
  });

  it("the actor of a change is the root key that signed in", async () => {
    const { browser, key } = await signedIn();
    await browser.submit(`${key("Trial")}/disable`, `${key("Trial")}/disable`);
    const { text } = await browser.get("/audit?operation=updateKey");
    expect(text).toMatch(
      /rk_\w+(<\/bdi> )?<span class="ks-muted">rootKey|<span class="ks-muted"><bdi class="ks-name"[^>]*>rk_\w+/,
    );
  });
});

describe("console: names that nobody would choose", () => {
  it("are shown as text, wherever they stand", async () => {
    const { browser, keyring, apiId } = await signedIn();
    for (const name of HOSTILE) {
      const { keyId } = await keyring.createKey({ apiId, name, externalId: name, meta: { [name.slice(0, 60)]: name } });
      await keyring.createRole({ name: [...name].slice(0, 100).join(""), description: name });
      for (const path of [
        `/keys/${keyId}`,
        `/keys/${keyId}/edit`,
        `/keys/${keyId}/revoke`,
        `/owners/${encodeURIComponent(name)}`,
      ]) {
        const { text, status } = await browser.get(path);
        expect([path, status]).toEqual([path, 200]);
        expect(text).not.toMatch(/<(script|img|svg onload|style|base|a href=\/\/|b)\b(?! (viewBox|defer src="\/))/i);
        expect(text).not.toMatch(/[\u202A-\u202E\u2066-\u2069\u200B\uFEFF](?![^<]*")(?![^<]*<\/textarea>)/);
      }
    }
    for (const path of ["/keys", "/owners", "/roles", "/audit"]) expect((await browser.get(path)).status).toBe(200);
  });

  it("go through the forms unchanged", async () => {
    const { browser, keyring, apiId } = await signedIn();
    for (const name of HOSTILE) {
      const { keyId } = await keyring.createKey({ apiId, name, externalId: name, meta: { name } });
      const before = await keyring.getKey({ keyId });
      const path = `/keys/${keyId}/edit`;
      const { text } = await browser.get(path);
      const sent = await browser.post(path, filledOf(text, path));
      expect([name, sent.status]).toEqual([name, 303]);
      expect(await keyring.getKey({ keyId })).toEqual(before);
    }
  });
});
