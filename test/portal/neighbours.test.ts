/** Customers of a portal attack each other with ids, forms, proofs, cookies, methods and bodies: nothing crosses. */
import { describe, expect, it } from "vitest";
import { createAnalytics, createKeyring, createVerifier, forOwner, KeystileError } from "../../src/index.js";
import { createPortal } from "../../src/portal/index.js";
import { hiddenOf } from "../console/client.js";
import { HOSTILE } from "../console/support.js";
import { type Browser, browse, NOW, openShop, optionsOf, ORIGIN, type Shop } from "./support.js";

const BELOW = ["", "/rotate", "/revoke"] as const;
const FIELDS = { name: "mine", overlap: "0", "may:reports.read": "on" };

/** All that a customer has, as the store has it. */
async function whole({ store, keyring, apiId, keys }: Shop, owner: string): Promise<unknown> {
  const mine = forOwner(keyring, owner, { apiId });
  const verifier = createVerifier(store, { clock: () => NOW });
  const codes = await Promise.all(
    (keys[owner] ?? []).map(async ({ key }) => (await verifier.verify({ key, credits: { cost: 0 } })).code),
  );
  await verifier.close();
  return { keys: (await mine.list()).data, balance: await mine.balance(), codes };
}

/** The proof in the pages of a customer. */
const proofOf = async (browser: Browser): Promise<Record<string, string>> =>
  hiddenOf((await browser.get("/new")).text, "/new");

describe("portal: neighbours", () => {
  it("ids of another's keys are those of no key, on every page and form", async () => {
    const shop = await openShop();
    const [before, bob] = [await whole(shop, "ann"), browse(shop, "bob")];
    const proof = await proofOf(bob);
    const missing = await bob.get("/keys/key_1p7xQ5T5VMLL1bPekcXcAA");
    for (const { keyId } of shop.keys["ann"] ?? [])
      for (const below of BELOW) {
        const [shown, done] = [
          await bob.get(`/keys/${keyId}${below}`),
          await bob.post(`/keys/${keyId}${below}`, { ...proof, ...FIELDS }),
        ];
        expect([shown.status, shown.text, done.status]).toEqual([404, missing.text, 404]);
      }
    expect(await whole(shop, "ann")).toEqual(before);
  });

  it("a key that was moved to another customer ends none of the first's when it is replaced", async () => {
    const shop = await openShop();
    const { keyId, key } = shop.keys["ann"]![0]!;
    const { keyring, store, apiId } = shop;
    const next = await forOwner(keyring, "ann", { apiId, prefix: "rep" }).rotate({ keyId, overlap: 86_400_000 });
    await keyring.updateKey({ keyId: next.keyId, externalId: "bob" });
    await forOwner(keyring, "bob", { apiId, prefix: "rep" }).rotate({ keyId: next.keyId, overlap: 0 });
    const verifier = createVerifier(store, { clock: () => NOW });
    expect((await verifier.verify({ key, credits: { cost: 0 } })).code).toBe("VALID");
    await verifier.close();
  });

  it("a form that arrives after its customer was signed out does nothing", async () => {
    const shop = await openShop();
    const proof = await proofOf(browse(shop, "ann"));
    let isSignedIn = true;
    const portal = createPortal(shop.keyring, { ...optionsOf(shop), owner: () => (isSignedIn ? "ann" : undefined) });
    const text = new TextEncoder().encode(new URLSearchParams({ ...proof, name: "late" }).toString());
    const body = new ReadableStream(
      {
        pull(controller) {
          isSignedIn = false;
          controller.enqueue(text);
          controller.close();
        },
      },
      { highWaterMark: 0 },
    );
    const headers = { origin: ORIGIN, "content-type": "application/x-www-form-urlencoded" };
    const init = { method: "POST", headers, body, duplex: "half" } as RequestInit;
    const { status } = await portal(new Request(`${ORIGIN}/new`, init));
    expect(status).toBe(401);
    const { data } = await forOwner(shop.keyring, "ann", { apiId: shop.apiId }).list();
    expect(data.map(({ name }) => name)).not.toContain("late");
  });

  it("no page of a customer has anything of another", async () => {
    const shop = await openShop();
    const bob = browse(shop, "bob");
    const id = shop.keys["bob"]?.[0]?.keyId ?? "";
    const paths = [
      "/",
      "/new",
      "/usage",
      "/statement",
      "/statement.csv",
      ...BELOW.map((below) => `/keys/${id}${below}`),
    ];
    for (const path of paths)
      for (const asked of ["", "?owner=ann&externalId=ann&identity=ann&user=ann"]) {
        const { status, text } = await bob.get(path + asked, { "x-owner": "ann", authorization: "Bearer ann" });
        expect(status).toBe(200);
        for (const { key, keyId } of shop.keys["ann"] ?? [])
          expect([text.includes(keyId), text.includes(key)]).toEqual([false, false]);
        expect(text).not.toMatch(/\bann\b/);
      }
  });

  it("a proof is of one owner, API and workspace, and no form works without", async () => {
    const shop = await openShop();
    const [ann, bob] = [browse(shop, "ann"), browse(shop, "bob")];
    const { apiId: other } = await shop.keyring.createApi({ name: "other" });
    const workspace = createKeyring(shop.store, { workspaceId: "ws_other", clock: () => NOW });
    const { apiId: foreign } = await workspace.createApi({ name: "foreign" });
    const elsewhere = browse({ ...shop, keyring: workspace, apiId: foreign }, "ann", {
      analytics: createAnalytics(shop.store, { workspaceId: "ws_other", clock: () => NOW }),
    });
    const proofs = [proofOf(bob), proofOf(browse({ ...shop, apiId: other }, "ann")), proofOf(elsewhere)];
    const own = await proofOf(ann);
    const wrong = [...(await Promise.all(proofs)), {}, { ...own, csrf: "" }, { ...own, csrf: `${own["csrf"]}a` }];
    const [before, id] = [await whole(shop, "ann"), shop.keys["ann"]?.[0]?.keyId];
    for (const proof of wrong)
      for (const path of ["/new", ...BELOW.map((below) => `/keys/${id}${below}`)])
        expect((await ann.post(path, { ...proof, ...FIELDS })).status).toBe(403);
    expect(await whole(shop, "ann")).toEqual(before);
    expect(new Set((await Promise.all([...proofs, proofOf(ann)])).map(({ csrf }) => csrf)).size).toBe(4);
    // The same in another process on the store, and after a restart.
    expect((await proofOf(browse(shop, "ann")))["csrf"]).toBe(own["csrf"]);
    expect((await browse(shop, "ann").post("/new", { ...own, ...FIELDS })).status).toBe(200);
  });

  it("a form makes nothing for the owner that it names", async () => {
    const shop = await openShop();
    const before = await whole(shop, "ann");
    const named = { owner: "ann", externalId: "ann", identity: "ann", keyId: shop.keys["ann"]?.[0]?.keyId ?? "" };
    expect(
      (await browse(shop, "bob").submit("/new", { ...FIELDS, ...named, apiId: "api_x", permissions: "*" })).status,
    ).toBe(200);
    expect(await whole(shop, "ann")).toEqual(before);
    const [made] = (await forOwner(shop.keyring, "bob", { apiId: shop.apiId }).list({ limit: 1 })).data;
    expect([made?.identity?.externalId, made?.apiId, made?.permissions]).toEqual(["bob", shop.apiId, ["reports.read"]]);
  });

  it("nobody's requests see nothing and change nothing, whatever proof they bring", async () => {
    const shop = await openShop();
    const [nobody, own] = [browse(shop, undefined), await proofOf(browse(shop, "ann"))];
    const [before, id] = [await whole(shop, "ann"), shop.keys["ann"]?.[0]?.keyId];
    for (const path of [
      "/",
      "/new",
      "/usage",
      "/statement.csv",
      "/nothing",
      ...BELOW.map((below) => `/keys/${id}${below}`),
    ]) {
      const [shown, done] = [await nobody.get(path), await nobody.post(path, { ...own, ...FIELDS })];
      expect([shown.status, done.status, shown.text]).toEqual([401, 401, done.text]);
    }
    expect(await whole(shop, "ann")).toEqual(before);
    const away = browse(shop, undefined, { signIn: "/sign-in?next=keys" });
    const [shown, done] = [await away.get("/"), await away.post("/new", own)];
    expect([shown.status, shown.headers.get("location"), shown.text]).toEqual([303, "/sign-in?next=keys", ""]);
    expect([done.status, done.text.includes('href="/sign-in?next=keys"')]).toEqual([401, true]);
  });

  it.each([
    ["another origin", { origin: "http://evil.example" }],
    ["no origin at all", { origin: "" }],
    ["another port", { origin: `${ORIGIN}:81` }],
    ["a page elsewhere", { "sec-fetch-site": "cross-site" }],
    ["a neighbour", { "sec-fetch-site": "same-site" }],
    ["an opaque origin", { origin: "null" }],
  ])("a form of %s changes nothing", async (_name, headers) => {
    const shop = await openShop();
    const ann = browse(shop, "ann");
    const own = await proofOf(ann);
    expect((await ann.post("/new", { ...own, ...FIELDS }, headers)).status).toBe(403);
    expect((await forOwner(shop.keyring, "ann", { apiId: shop.apiId }).list()).data).toHaveLength(2);
  });

  it("other methods, other types, and long or broken bodies change nothing", async () => {
    const shop = await openShop();
    const ann = browse(shop, "ann");
    const [before, own] = [await whole(shop, "ann"), await proofOf(ann)];
    const id = shop.keys["ann"]?.[0]?.keyId;
    const send = (
      method: string,
      body?: string | Uint8Array<ArrayBuffer>,
      type = "application/x-www-form-urlencoded",
    ) =>
      ann.send(
        new Request(`${ORIGIN}/keys/${id}/revoke`, {
          ...{ method, headers: { cookie: "user=ann", origin: ORIGIN, "content-type": type } },
          ...(body !== undefined && { body }),
        }),
      );
    for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS"]) expect((await send(method)).status).toBe(405);
    const form = new URLSearchParams(own).toString();
    for (const type of [
      "text/plain",
      "application/json",
      "multipart/form-data; boundary=x",
      "application/x-www-form-urlencoded; charset=utf-16",
    ])
      expect((await send("POST", form, type)).status).toBe(415);
    expect((await send("POST", `${form}&a=${"x".repeat(20_000)}`)).status).toBe(413);
    expect((await send("POST", new Uint8Array([0xff, 0xfe, 0, 1]))).status).toBe(403);
    expect((await ann.post("/usage", own)).status).toBe(405);
    expect(await whole(shop, "ann")).toEqual(before);
    const head = await ann.send(new Request(`${ORIGIN}/`, { method: "HEAD", headers: { cookie: "user=ann" } }));
    expect([head.status, head.text]).toEqual([200, ""]);
  });

  it("addresses that are none: 404, and nothing of the request in the page", async () => {
    const shop = await openShop();
    const browser = browse(shop, "ann");
    const ids = [
      ...HOSTILE,
      "..",
      "../bob",
      "a".repeat(300),
      `${shop.keys["ann"]?.[0]?.keyId}0`,
      shop.keys["ann"]?.[0]?.keyId.slice(0, -1) ?? "",
    ];
    for (const id of ids)
      for (const below of ["", "/rotate", "/constructor", "/revoke/x"]) {
        const { status, text } = await browser.get(`/keys/${encodeURIComponent(id)}${below}`);
        expect([id, status === 404 || (status === 200 && id === "..")]).toEqual([id, true]);
        if (id.length > 20) expect(text).not.toContain(id);
      }
    for (const path of ["/constructor", "/__proto__", "/portal.css/x", "//", "/keys", "/keys/"])
      expect((await browser.get(path)).status).toBe(404);
  });

  it("owners with names that nobody would choose have their own keys and no others", async () => {
    const names = [...HOSTILE, "%", "ann ", " ann", "ANN", "a".repeat(255), "\u202Eann"].filter(
      (name) => name.length <= 255,
    );
    const shop = await openShop(["ann"]);
    let owner = "";
    const portal = createPortal(shop.keyring, optionsOf(shop, { owner: () => owner }));
    const call = async (path: string, form?: Record<string, string>) => {
      const init = form && { method: "POST", body: new URLSearchParams(form), headers: { origin: ORIGIN } };
      const response = await portal(new Request(ORIGIN + path, init));
      return { status: response.status, text: await response.text() };
    };
    const proofs = new Set<string | undefined>();
    for (const name of names) {
      owner = name;
      expect((await call("/")).text).toContain("There are no keys yet.");
      const hidden = hiddenOf((await call("/new")).text, "/new");
      proofs.add(hidden["csrf"]);
      expect([name, (await call("/new", { ...hidden, ...FIELDS })).status]).toEqual([name, 200]);
      const { text } = await call("/");
      expect(text.match(/href="\/keys\//g)).toHaveLength(1);
      expect((await call("/statement.csv")).status).toBe(200);
    }
    expect(proofs.size).toBe(names.length);
    expect((await forOwner(shop.keyring, "ann", { apiId: shop.apiId }).list()).data).toHaveLength(2);
  });
});

describe("portal: the program's function", () => {
  const secret = "postgres://user:password@host";
  it.each([
    [
      "throws",
      () => {
        throw new Error(secret);
      },
    ],
    ["rejects", () => Promise.reject(new Error(secret))],
    [
      "throws an error of this package",
      () => {
        throw new KeystileError("NOT_FOUND", secret);
      },
    ],
    ["returns null", () => null],
    ["returns false", () => false],
    ["returns nothing of a name", () => ""],
    ["returns a number", () => 5],
    ["returns an object", () => ({ customerId: "ann", toString: () => "ann" })],
    ["returns a list", () => Promise.resolve(["ann"])],
    ["returns a name of 256 characters", () => "x".repeat(256)],
    ["returns control characters", () => "ann\u0000"],
    ["returns a lone surrogate", () => "\ud800"],
  ])("%s: 500 without details, nobody is let in, and onError is told", async (_name, owner) => {
    const shop = await openShop();
    const told: unknown[] = [];
    const browser = browse(shop, "ann", { owner: owner as never, onError: (error) => void told.push(error) });
    for (const shown of [await browser.get("/"), await browser.post("/new", FIELDS)]) {
      expect([shown.status, shown.text.includes("Something went wrong.")]).toEqual([500, true]);
      expect(shown.text).not.toMatch(/password|ann|options|owner/);
    }
    expect(told).toHaveLength(2);
    expect(JSON.stringify(told)).not.toContain("ann");
  });

  it("a program that changes its ceiling later gives nobody more", async () => {
    const shop = await openShop();
    const ceiling = { keys: 3, permissions: ["reports.read"] };
    const ann = browse(shop, "ann", { ceiling });
    ceiling.keys = 100;
    ceiling.permissions.push("admin");
    expect((await ann.get("/new")).text).not.toContain("admin");
    expect((await ann.submit("/new", { "may:admin": "on" })).status).toBe(200);
    expect((await ann.submit("/new", { "may:admin": "on" })).status).toBe(409);
    const { data } = await forOwner(shop.keyring, "ann", { apiId: shop.apiId }).list();
    expect(data.map(({ permissions }) => permissions)).toEqual([["reports.read"], ["reports.read"], ["reports.read"]]);
  });
});
