/** Who is let in, for how long, and what a request must bring along. */
import { describe, expect, it } from "vitest";
import type { ActiveRootKey } from "../../src/access/authenticate.js";
import { createSessions } from "../../src/console/sessions.js";
import { createKeyring, createVerifier, memoryLimiter, memoryStore, type Store } from "../../src/index.js";
import { client, hiddenOf, ORIGIN } from "./client.js";
import { NOW } from "./support.js";

async function make(permissions: readonly string[] = ["api.*.read_key", "identity.*.create_identity"]) {
  const store = memoryStore();
  const keyring = createKeyring(store, { clock: () => NOW });
  const { key, rootKeyId } = await keyring.createRootKey({ name: "Operator", permissions });
  return { store, keyring, rootKey: key, rootKeyId };
}

describe("console: signing in", () => {
  it("a root key gets a cookie that is for the console alone, and is no part of the page or the address", async () => {
    const { store, rootKey } = await make();
    const browser = client(store, { basePath: "/admin" });
    const { status, headers } = await browser.signIn(rootKey);
    expect([status, headers.get("location")]).toEqual([303, "/admin/"]);
    expect(headers.get("set-cookie")).toMatch(
      /^keystile-console=[0-9a-f]{64}; Path=\/admin; HttpOnly; SameSite=Strict$/,
    );
    const page = await browser.get("/");
    expect(page.status).toBe(200);
    expect(page.text).toContain("Operator");
    const [, id = "none"] = browser.cookie.split("=");
    for (const secret of [id, rootKey]) expect(page.text).not.toContain(secret);
  });

  it("off the machine itself the cookie goes over TLS alone", async () => {
    const { store, rootKey } = await make();
    const { send } = client(store);
    const url = "https://keys.example.com/sign-in";
    const headers = { origin: "https://keys.example.com" };
    const { headers: sent } = await send(
      new Request(url, { method: "POST", headers, body: new URLSearchParams({ key: rootKey }) }),
    );
    expect(sent.get("set-cookie")).toContain("; Secure");
  });

  it("without a session every page leads to the sign-in, which leads back, and nowhere else", async () => {
    const { store, rootKey } = await make();
    const browser = client(store);
    const { status, headers } = await browser.get("/keys/key_1");
    expect([status, headers.get("location")]).toEqual([303, "/sign-in?to=%2Fkeys%2Fkey_1"]);
    for (const to of [
      "//evil.example",
      "https://evil.example/",
      "/\\evil.example",
      "javascript:alert(1)",
      "/keys/..",
    ]) {
      const { text } = await browser.get(`/sign-in?to=${encodeURIComponent(to)}`);
      expect([to, hiddenOf(text, "/sign-in")["to"]]).toEqual([to, "/"]);
      const { headers: sent } = await browser.post("/sign-in", { key: rootKey, to });
      expect(new URL(sent.get("location") ?? "", `${ORIGIN}/sign-in`).origin).toBe(ORIGIN);
    }
  });

  it("every failure gets the same answer after the same time", async () => {
    const { store, keyring, rootKey, rootKeyId } = await make();
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key } = await keyring.createKey({ apiId });
    await keyring.updateRootKey({ rootKeyId, enabled: false });
    const texts = new Set<string>();
    for (const wrong of ["", "root_wrong", rootKey, key, "\ud800", "x".repeat(5_000)]) {
      const began = performance.now();
      const { status, text, headers } = await client(store).signIn(wrong);
      expect(performance.now() - began).toBeGreaterThanOrEqual(245);
      expect([status, headers.get("set-cookie")]).toEqual([403, null]);
      texts.add(text);
    }
    expect(texts.size).toBe(1);
  });

  it("five failures a minute of an address, and thirty of all; a right root key is let in whatever failed", async () => {
    const { store, rootKey } = await make();
    let now = NOW;
    let address = "203.0.113.1";
    const browser = client(store, { clock: () => now, clientAddress: () => address });
    const statuses = async (count: number, key: string) =>
      (await Promise.all(Array.from({ length: count }, () => browser.signIn(key)))).map(({ status }) => status);
    expect(await statuses(10, rootKey)).toEqual(Array.from({ length: 10 }, () => 303));
    expect((await statuses(6, "root_wrong")).sort()).toEqual([403, 403, 403, 403, 403, 429]);
    for (let i = 0; i < 25; i++) {
      address = `203.0.113.${100 + i}`;
      await browser.signIn("root_wrong");
    }
    address = "203.0.113.200";
    expect(await statuses(1, "root_wrong")).toEqual([429]);
    expect(await statuses(1, rootKey)).toEqual([303]);
    now += 60_000;
    expect(await statuses(1, "root_wrong")).toEqual([403]);
  });

  it("leads back to a page whose id is no ASCII, or to none", async () => {
    const { store, rootKey } = await make();
    const browser = client(store);
    for (const [to, path] of [
      ["/keys/日本", "/keys/%E6%97%A5%E6%9C%AC"],
      ["/keys/%E6%97%A5", "/keys/%E6%97%A5"],
      ["/keys/a\r\nset-cookie: b", "/keys/aset-cookie:%20b"],
      ["/keys/\ud800", "/keys/%EF%BF%BD"],
      ["keys/a", "/"],
    ] as const) {
      const { status, headers } = await browser.post("/sign-in", { key: rootKey, to });
      expect([to, status, headers.get("location")]).toEqual([to, 303, path]);
      expect(headers.get("set-cookie")).toContain("keystile-console=");
    }
  });

  it("a cookie that another page planted before it does not hide a session", async () => {
    const { store, rootKey } = await make();
    const browser = client(store);
    await browser.signIn(rootKey);
    const planted = `keystile-console=${"0".repeat(64)}`;
    const cookie = `${planted}; ${browser.cookie}; ${planted}`;
    const { status } = await browser.send(new Request(`${ORIGIN}/`, { headers: { cookie } }));
    expect(status).toBe(200);
  });
});

describe("console: sessions", () => {
  it.each([
    ["30 minutes unused", [29, 30], [200, 303]],
    ["8 hours", Array.from({ length: 17 }, () => 29).concat([0]), [...Array.from({ length: 16 }, () => 200), 303, 303]],
  ] as const)("end after %s", async (_what, minutes, statuses) => {
    const { store, rootKey } = await make();
    let now = NOW;
    const browser = client(store, { clock: () => now });
    await browser.signIn(rootKey);
    const found: number[] = [];
    for (const length of minutes) {
      now += length * 60_000;
      found.push((await browser.get("/")).status);
    }
    expect(found).toEqual(statuses);
  });

  it.each([
    ["disabled", { enabled: false }],
    ["expired", { expires: NOW - 1 }],
    ["given other permissions", { permissions: ["api.*.read_key"] }],
  ])("end when the root key is %s, also in between", async (_what, change) => {
    const { store, keyring, rootKey, rootKeyId } = await make();
    const browser = client(store);
    await browser.signIn(rootKey);
    expect((await browser.get("/")).status).toBe(200);
    await keyring.updateRootKey({ rootKeyId, ...change });
    expect((await browser.get("/")).status).toBe(303);
    await keyring.updateRootKey({
      rootKeyId,
      enabled: true,
      expires: null,
      permissions: ["api.*.read_key", "identity.*.create_identity"],
    });
    expect((await browser.get("/")).status).toBe(303);
  });

  it("end when the root key is deleted, and when one signs out, for whoever kept the cookie", async () => {
    const { store, keyring, rootKey, rootKeyId } = await make();
    const browser = client(store);
    await browser.signIn(rootKey);
    const { cookie } = browser;
    expect((await browser.submit("/", "/sign-out")).headers.get("location")).toBe("/sign-in");
    expect(browser.cookie).toBe("keystile-console=");
    expect((await browser.get("/", { cookie })).status).toBe(303);
    await browser.signIn(rootKey);
    await keyring.deleteRootKey({ rootKeyId });
    expect((await browser.get("/")).status).toBe(303);
  });

  it("are new with each sign-in: an id that somebody chose, or had before, is none", async () => {
    const { store, rootKey } = await make();
    const browser = client(store);
    browser.cookie = `keystile-console=${"0".repeat(64)}`;
    const chosen = browser.cookie;
    await browser.signIn(rootKey);
    const first = browser.cookie;
    expect(first).not.toBe(chosen);
    await browser.signIn(rootKey);
    for (const cookie of [chosen, first]) expect((await browser.get("/", { cookie })).status).toBe(303);
    expect((await browser.get("/")).status).toBe(200);
  });

  it("of more than a thousand, those of the workspace that has most give way, and not those of another", async () => {
    const of = (workspaceId: string) => ({ caller: { workspaceId }, permissions: [] }) as unknown as ActiveRootKey;
    let active = of("ws_1");
    const sessions = createSessions({ find: () => active }, () => NOW);
    const quiet = await sessions.begin("a");
    active = of("ws_2");
    const [first, second] = [await sessions.begin("b"), await sessions.begin("b")];
    for (let i = 0; i < 999; i++) await sessions.begin("b");
    expect(await sessions.find(quiet ?? "")).toBe(active);
    for (const id of [first, second]) expect(await sessions.find(id ?? "")).toBeUndefined();
  });

  it("of more than a thousand, the one that was unused for longest gives way", async () => {
    const active = { caller: {}, permissions: [] } as unknown as ActiveRootKey;
    const sessions = createSessions({ find: () => active }, () => NOW);
    const [first, second, third] = [await sessions.begin("a"), await sessions.begin("a"), await sessions.begin("a")];
    expect(await sessions.find(first ?? "")).toBe(active);
    for (let i = 0; i < 998; i++) await sessions.begin("a");
    expect(await sessions.find(second ?? "")).toBeUndefined();
    for (const id of [first, third]) expect(await sessions.find(id ?? "")).toBe(active);
  });
});

describe("console: what a request must bring along", () => {
  const create = { externalId: "acme", ratelimits: "" };
  const count = async (store: Store) => (await createKeyring(store).listIdentities()).data.length;

  it("a form without the token of the session, or with that of another, changes nothing", async () => {
    const { store, rootKey } = await make();
    const [mine, other] = [client(store), client(store)];
    for (const browser of [mine, other]) await browser.signIn(rootKey);
    const foreign = hiddenOf((await other.get("/owners/new")).text, "/owners/new");
    for (const fields of [{}, { csrf: "" }, foreign])
      expect((await mine.post("/owners/new", { ...create, ...fields })).status).toBe(403);
    expect(await count(store)).toBe(0);
  });

  it.each([
    ["another origin", { origin: "https://evil.example" }],
    ["no origin at all", { origin: "null" }],
    ["another port", { origin: "http://localhost:1" }],
    ["a page elsewhere", { "sec-fetch-site": "cross-site" }],
    ["a neighbour", { "sec-fetch-site": "same-site" }],
    ["an address bar", { "sec-fetch-site": "none" }],
  ])("a form of %s changes nothing", async (_what, headers) => {
    const { store, rootKey } = await make();
    const browser = client(store);
    await browser.signIn(rootKey);
    const hidden = hiddenOf((await browser.get("/owners/new")).text, "/owners/new");
    expect((await browser.post("/owners/new", { ...create, ...hidden }, headers)).status).toBe(403);
    expect((await browser.post("/sign-in", { key: rootKey }, headers)).status).toBe(403);
    expect(await count(store)).toBe(0);
    expect((await browser.post("/owners/new", { ...create, ...hidden })).status).toBe(303);
  });

  it("a form that says nothing of where it comes from changes nothing", async () => {
    const { store, rootKey } = await make();
    const browser = client(store);
    await browser.signIn(rootKey);
    const hidden = hiddenOf((await browser.get("/owners/new")).text, "/owners/new");
    const body = new URLSearchParams({ ...create, ...hidden });
    const request = new Request(`${ORIGIN}/owners/new`, { method: "POST", body, headers: { cookie: browser.cookie } });
    expect((await browser.send(request)).status).toBe(403);
    expect(await count(store)).toBe(0);
  });

  it("a form is taken once; one that failed may be sent again", async () => {
    const { store, rootKey } = await make();
    const browser = client(store);
    await browser.signIn(rootKey);
    const hidden = hiddenOf((await browser.get("/owners/new")).text, "/owners/new");
    expect((await browser.post("/owners/new", { ...hidden, externalId: "" })).status).toBe(400);
    expect((await browser.post("/owners/new", { ...hidden, ...create })).status).toBe(303);
    expect((await browser.post("/owners/new", { ...hidden, externalId: "other" })).status).toBe(409);
    const both = hiddenOf((await browser.get("/owners/new")).text, "/owners/new");
    const sent = await Promise.all(
      ["x1", "x2"].map((externalId) => browser.post("/owners/new", { ...both, externalId })),
    );
    expect(sent.map(({ status }) => status).sort()).toEqual([303, 409]);
    expect(await count(store)).toBe(2);
  });

  it.each([
    ["another name", "http://evil.example/", { hosts: ["localhost"] }, 400],
    ["one of its names, with any port", "http://localhost:1/sign-in", { hosts: ["localhost"] }, 200],
    ["any name, unless some are given", "http://evil.example/sign-in", {}, 200],
  ])("%s in the address", async (_what, url, options, status) => {
    const { store } = await make();
    expect((await client(store, options).send(new Request(url))).status).toBe(status);
  });

  it("a body of more than 16 kB, or of another type, changes nothing", async () => {
    const { store, rootKey } = await make();
    const browser = client(store);
    await browser.signIn(rootKey);
    const hidden = hiddenOf((await browser.get("/owners/new")).text, "/owners/new");
    expect((await browser.post("/owners/new", { ...create, ...hidden, more: "x".repeat(16_384) })).status).toBe(413);
    for (const type of ["application/json", "multipart/form-data", "text/plain"])
      expect((await browser.post("/owners/new", { ...create, ...hidden }, { "content-type": type })).status).toBe(415);
    expect(await count(store)).toBe(0);
  });

  it("no page is kept, framed or given scripts of others", async () => {
    const { store, rootKey } = await make();
    const browser = client(store);
    for (const path of ["/sign-in", "/", "/nowhere"]) {
      const { headers } = await browser.get(path);
      expect(headers.get("cache-control")).toBe("no-store");
      const policy = headers.get("content-security-policy") ?? "";
      for (const part of ["default-src 'none'", "script-src 'self'", "form-action 'self'", "frame-ancestors 'none'"])
        expect(policy).toContain(part);
      await browser.signIn(rootKey);
    }
  });
});

describe("console: the program's own sign-in", () => {
  const caller = (may: boolean, id = "ann") => ({
    workspaceId: "ws_default",
    kind: "user",
    id,
    may: () => may,
    mayAny: () => may,
  });

  it("takes the place of that of the console, and its forms have a token of the caller", async () => {
    const { store } = await make();
    let who: ReturnType<typeof caller> | undefined = caller(true);
    const browser = client(store, { authenticate: (request) => (request.headers.has("x-user") ? who : undefined) });
    const user = { "x-user": "1" };
    expect((await browser.get("/")).status).toBe(403);
    expect((await browser.get("/sign-in", user)).status).toBe(404);
    const page = await browser.get("/owners/new", user);
    expect(page.text).not.toContain("Sign out");
    const hidden = hiddenOf(page.text, "/owners/new");
    who = caller(true, "eve");
    expect((await browser.post("/owners/new", { ...hidden, externalId: "acme" }, user)).status).toBe(403);
    who = caller(true);
    expect((await browser.post("/owners/new", { ...hidden, externalId: "acme" }, user)).status).toBe(303);
    who = undefined;
    expect((await browser.get("/", user)).status).toBe(403);
  });

  it.each([
    ["throws", () => Promise.reject(new Error("no"))],
    ["returns no caller", () => ({ workspaceId: "ws_default" })],
  ])("one that %s lets nobody in, and is reported", async (_what, authenticate) => {
    const { store } = await make();
    const faults: unknown[] = [];
    const browser = client(store, { authenticate: authenticate as never, onError: (error) => faults.push(error) });
    expect((await browser.get("/")).status).toBe(500);
    expect(faults).toHaveLength(1);
  });
});

describe("console: options", () => {
  it.each([
    [{ basePath: "/admin/" }, "options.basePath"],
    [{ basePath: "/keys" }, "options.basePath"],
    [{ basePath: "/sign-in/x" }, "options.basePath"],
    [{ hosts: ["http://localhost"] }, "options.hosts"],
    [{ verifier: {} }, "options.verifier"],
    [{ readOnly: 1 }, "options.readOnly"],
    [{ verifier: { verify() {}, counters() {}, close() {} } }, "options.verifier"],
    [{ verifier: createVerifier(memoryStore()), limiter: memoryLimiter() }, "options.limiter"],
    [{ externalIds: "all" }, "options.externalIds"],
    [{ other: 1 }, "options.other"],
  ])("names the option: %#", (options, name) => {
    expect(() => client(memoryStore(), options as never)).toThrow(name);
  });
});
