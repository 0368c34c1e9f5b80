/** The console in a real browser: on a phone and on a desk, light and dark, by keyboard, and without JavaScript. */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findPage, PAGES } from "../../src/console/pages/find-page.js";
import { createKeyring, createRatelimits, createVerifier } from "../../src/index.js";
import { HOSTILE, NOW, seed, type Seeded, serve, type Served, slowly } from "../console/support.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const ALONE = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync";
/** The rules of accessibility. */
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const ALL_RULES = "{}";
/** Those that depend on width and colour: in the second ones a page is the same text. */
const RULES_OF_LOOKS = JSON.stringify({
  runOnly: {
    type: "rule",
    values: ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"],
  },
});

/** Verifications that charts and statements have: on two days, some of them refused. */
async function count({ store, texts }: Seeded): Promise<void> {
  for (const now of [NOW - 20 * 86_400_000, NOW]) {
    const verifier = createVerifier(store, { clock: () => now, analytics: true });
    for (const key of Object.values(texts))
      for (const permissions of ["documents.read", "nothing"])
        await verifier.verify({ key, permissions, tags: ["plan=pro"] });
    await verifier.close();
  }
}

// Without a browser there is nothing to try; continuous integration installs one, and fails where this is skipped.
describe.skipIf(!existsSync(CHROMIUM))("console in a browser", { timeout: 240_000 }, () => {
  let seeded: Seeded;
  let served: Served;
  let close: () => Promise<unknown>;
  let browser: Browser;
  let cookies: Awaited<ReturnType<BrowserContext["cookies"]>>;
  /** What stands for `:id`, by the first part of a path. */
  let ids: Readonly<Record<string, string>>;
  const key = (name: string): string => `/keys/${seeded.keys[name]}`;

  beforeAll(async () => {
    seeded = await seed();
    await count(seeded);
    const keyring = createKeyring(seeded.store);
    const override = { namespace: "mine", identifier: "customer 1", limit: 5, duration: 60_000 };
    await createRatelimits(seeded.store).setOverride(override);
    const [roles, rootKeys] = await Promise.all([keyring.listRoles(), keyring.listRootKeys()]);
    const [roleId = "", rootKeyId = ""] = [roles.data[0]?.id, rootKeys.data[0]?.rootKeyId];
    ids = {
      ...{ keys: seeded.keys["Mobile app"] ?? "", owners: "acme", limits: "mine" },
      roles: roleId,
      "root-keys": rootKeyId,
    };
    const verifier = createVerifier(seeded.store, { clock: () => NOW });
    served = await serve(seeded.store, { verifier });
    close = () => Promise.all([served.close(), verifier.close()]);
    const args = [...ALONE.split(" "), "--disable-component-update"];
    browser = await chromium.launch({ executablePath: CHROMIUM, args });
    const context = await browser.newContext();
    const page = await context.newPage();
    await signIn(page);
    cookies = await context.cookies();
    await context.close();
  });
  afterAll(async () => {
    await browser.close();
    await close();
  });

  async function signIn(page: Page): Promise<void> {
    await page.goto(`${served.url}/sign-in`);
    await page.getByLabel("Root key").fill(seeded.rootKey);
    await page.keyboard.press("Enter");
    await page.waitForURL(`${served.url}/`);
  }

  /** A page of who is signed in, and what went wrong on it. */
  async function open(options: Parameters<Browser["newContext"]>[0] = {}) {
    const context = await browser.newContext(options);
    await context.addCookies(cookies);
    const page = await context.newPage();
    const faults: string[] = [];
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on(
      "request",
      (request) => new URL(request.url()).origin !== new URL(served.url).origin && faults.push(request.url()),
    );
    return { context, page, faults };
  }

  const pages = (): Readonly<Record<string, string>> => ({
    overview: "/",
    keys: "/keys",
    "keys that are not found": "/keys?search=nothing",
    key: `${key("Mobile app")}?query=documents.read+AND+exports.run`,
    "a query that is wrong": `${key("Mobile app")}?query=documents.read+AND+OR+x`,
    "create key": "/keys/new",
    edit: `${key("Mobile app")}/edit`,
    rotate: `${key("Mobile app")}/rotate`,
    revoke: `${key("Mobile app")}/revoke`,
    owners: "/owners",
    owner: "/owners/acme",
    "an owner's statement": "/owners/acme/statement",
    "a key's statement": `${key("Mobile app")}/statement?month=2026-10`,
    "who spent most": "/?top=spent",
    "new owner": "/owners/new",
    "edit owner": "/owners/acme/edit",
    roles: "/roles",
    "new role": "/roles/new",
    limits: "/limits",
    import: "/import",
    query: "/query?query=a.b+AND+(c+OR+d)&granted=a.*+d",
    audit: "/audit",
    "root keys": "/root-keys",
    health: "/health",
    notice: `${key("Mobile app")}?notice=enabled`,
  });
  /** Every page, those that have no row above by their paths. */
  function everyPage(): Readonly<Record<string, string>> {
    const seen = new Set(Object.values(pages()).map((path) => findPage(path.replace(/\?.*/, ""))?.page));
    const others = PAGES.filter((page) => !seen.has(page)).map(({ path }) => path);
    const idOf = (path: string): string => ids[path.split("/")[1] ?? ""] ?? "";
    return { ...pages(), ...Object.fromEntries(others.map((path) => [path, path.replace(":id", idOf(path))])) };
  }

  // As text: this file is compiled without the types of browsers.
  const overflow = (page: Page) =>
    page.evaluate<number>("document.documentElement.scrollWidth - document.documentElement.clientWidth");

  async function violations(page: Page, rules = ALL_RULES): Promise<readonly string[]> {
    // Not as a script of the page, which its policy forbids.
    await page.evaluate(AXE);
    return page.evaluate<string[]>(
      `axe.run(${rules}).then(({ violations }) => violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html.slice(0, 160)).join(' ')))`,
    );
  }

  /** Both widths and both colours; neither depends on the other. */
  const SIZES = [
    [1_440, "light"],
    [360, "dark"],
  ] as const;

  it.each(SIZES)("at %i pixels, %s: no page overflows, fails, or asks anybody else", async (width, colorScheme) => {
    const { context, page, faults } = await open({ viewport: { width, height: 900 }, colorScheme });
    const rules = colorScheme === "light" ? ALL_RULES : RULES_OF_LOOKS;
    for (const [name, path] of Object.entries(everyPage())) {
      const answer = await page.goto(served.url + path);
      expect([name, answer?.status()]).toEqual([name, 200]);
      expect([name, await overflow(page)]).toEqual([name, 0]);
      expect([name, await violations(page, rules)]).toEqual([name, []]);
    }
    const { text, background } = await page.evaluate<{ readonly text: string; readonly background: string }>(
      "({ text: getComputedStyle(document.body).color, background: getComputedStyle(document.body).backgroundColor })",
    );
    const brightness = (color: string): number => Number(/\d+/.exec(color)?.[0]);
    expect(brightness(text) < brightness(background)).toBe(colorScheme === "light");
    await page.evaluate(
      "document.querySelectorAll('h1, p, td, a').forEach(({ style }) => (style.color = getComputedStyle(document.body).backgroundColor))",
    );
    expect((await violations(page, rules)).join(" ")).toContain("color-contrast");
    expect(faults).toEqual([]);
    await context.close();
  });

  it.each(SIZES)(
    "at %i pixels, %s: nor does signing in, a refusal, or a page that does not exist",
    async (width, colorScheme) => {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = await context.newPage();
      await page.goto(`${served.url}/keys`);
      expect([await overflow(page), await violations(page)]).toEqual([0, []]);
      await context.addCookies(cookies);
      await page.goto(`${served.url}/nowhere`);
      expect([await overflow(page), await violations(page)]).toEqual([0, []]);
      await page.goto(`${served.url}/keys/new`);
      await page.getByLabel("Metadata").fill("{");
      await page.getByRole("button", { name: "Create key" }).click();
      await page.getByRole("alert").waitFor();
      expect([await overflow(page), await violations(page)]).toEqual([0, []]);
      await context.close();
    },
  );

  it("with names that nobody would choose, no page runs, hides or widens anything", async () => {
    const store = await seed();
    const keyring = createKeyring(store.store, { clock: () => NOW });
    for (const name of HOSTILE) {
      await keyring.createKey({ apiId: store.apiId, name, externalId: name, meta: { name }, permissions: ["a"] });
      await keyring.createRole({ name: [...name].slice(0, 100).join(""), description: name });
    }
    const other = await serve(store.store);
    const context = await browser.newContext({ viewport: { width: 360, height: 900 } });
    const page = await context.newPage();
    const faults: string[] = [];
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    page.on("request", (request) => new URL(request.url()).origin !== other.url && faults.push(request.url()));
    await page.goto(`${other.url}/sign-in`);
    await page.getByLabel("Root key").fill(store.rootKey);
    await page.keyboard.press("Enter");
    await page.waitForURL(`${other.url}/`);
    const { data } = await keyring.listKeys({ apiId: store.apiId });
    const owners = HOSTILE.map((name) => `/owners/${encodeURIComponent(name)}`);
    for (const path of [
      "/",
      "/keys",
      "/owners",
      "/roles",
      "/audit",
      ...data.map(({ keyId }) => `/keys/${keyId}`),
      ...owners,
    ]) {
      await page.goto(other.url + path);
      expect([path, await overflow(page), await page.evaluate("window.hurt")]).toEqual([path, 0, undefined]);
    }
    for (const width of [360, 1_440]) {
      await page.setViewportSize({ width, height: 900 });
      await page.goto(`${other.url}/keys`);
      expect([await overflow(page), await violations(page)]).toEqual([0, []]);
    }
    expect(faults).toEqual([]);
    await context.close();
    await other.close();
  });

  /** Reaches what has this role and name by the Tab key alone. */
  async function tabTo(page: Page, role: Parameters<Page["getByRole"]>[0], name: string): Promise<void> {
    const goal = page.getByRole(role, { name, exact: true }).and(page.locator(":focus"));
    for (let i = 0; i < 120; i++) {
      if ((await goal.count()) > 0) return;
      await page.keyboard.press("Tab");
    }
    throw new Error(`the Tab key does not reach ${role} ${name}`);
  }

  it.each([
    ["with JavaScript", true],
    ["without JavaScript", false],
  ])("every action on a key goes by keyboard alone, %s", async (_what, javaScriptEnabled) => {
    const { context, page, faults } = await open({ javaScriptEnabled });
    const press = async (role: Parameters<Page["getByRole"]>[0], name: string): Promise<void> => {
      // Where scripts are off the focus cannot be asked for: it is set, and the rest goes by keys.
      if (javaScriptEnabled) await tabTo(page, role, name);
      else await page.getByRole(role, { name, exact: true }).first().focus();
      await Promise.all([page.waitForEvent("load"), page.keyboard.press("Enter")]);
    };
    await page.goto(`${served.url}/keys/new`);
    await page.getByLabel("Name").fill("By keyboard");
    await page.getByLabel("Owner").fill("typist");
    await press("button", "Create key");
    expect(await page.getByLabel("Key", { exact: true }).inputValue()).toMatch(/^[0-9A-Za-z_]{28,}$/);
    await press("link", "Go to the key");
    const path = new URL(page.url()).pathname;
    await press("link", "Disable");
    await page.getByLabel("Reason").fill("by hand");
    await press("button", "Disable");
    expect(await page.getByRole("status").textContent()).toContain("disabled");
    await press("button", "Enable");
    expect(await page.getByRole("status").textContent()).toContain("enabled");
    await press("link", "Edit");
    await page.getByLabel("Name").fill("Renamed");
    await press("button", "Save");
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Renamed");
    await press("link", "Give this key credits of its own");
    await page.getByLabel("Credits", { exact: true }).fill("7");
    await press("button", "Save");
    await press("link", "Rotate");
    await press("button", "Rotate; the old key ends in 1 d, 2026-11-25 12:00:00 UTC");
    await page.goto(served.url + path);
    await page.getByLabel("Permission query").fill("a.b");
    await press("button", "Explain");
    expect(await page.locator("#ks-found").textContent()).toContain("INSUFFICIENT_PERMISSIONS");
    await press("link", "Revoke");
    await page.getByLabel("Type its owner").fill("typist");
    await press("button", "Revoke");
    expect(await page.getByRole("status").textContent()).toBe("The key is revoked.");
    await page.getByLabel("Search").fill("Mobile");
    await press("button", "Search");
    expect(await page.locator("tbody tr").count()).toBe(1);
    expect(faults).toEqual([]);
    await context.close();
  });

  it.each(["light", "dark"] as const)("cards of lists are short at 360 px, %s", async (colorScheme) => {
    const { context, page } = await open({ viewport: { width: 360, height: 800 }, colorScheme });
    for (const [path, most] of [
      ["/keys", 160],
      ["/owners", 130],
      ["/root-keys", 130],
    ] as const) {
      await page.goto(served.url + path);
      const tallest = "Math.max(...[...document.querySelectorAll('tbody tr')].map((row) => row.offsetHeight))";
      const height = await page.evaluate<number>(tallest);
      expect([path, height > 40 && height <= most ? "short" : height]).toEqual([path, "short"]);
    }
    await context.close();
  });

  it("going back after a rotation and sending the form again makes no second successor", async () => {
    const { context, page } = await open();
    const keyring = createKeyring(seeded.store);
    const { keyId, key: text } = await keyring.createKey({ apiId: seeded.apiId, name: "Twice", externalId: "acme" });
    await page.goto(`${served.url}/keys/${keyId}/rotate`);
    await page.getByRole("button", { name: "ends now" }).click();
    expect(await page.getByLabel("Key", { exact: true }).inputValue()).not.toBe(text);
    const { rerolledTo = "" } = await keyring.getKey({ keyId });
    await page.goBack();
    const rotate = page.getByRole("button", { name: "ends now" });
    // The browser may ask for the page again, which has no form then.
    if ((await rotate.count()) > 0) await rotate.click();
    await page.getByText("It was rotated before").waitFor();
    await page.getByRole("link", { name: rerolledTo }).click();
    expect(await page.getByRole("link", { name: "Rotate", exact: true }).count()).toBe(1);
    const named = await keyring.searchKeys({ search: "Twice" });
    expect(named.data.map((one) => one.keyId).sort()).toEqual([keyId, rerolledTo].sort());
    await context.close();
  });

  it("an owner is given another plan and a grant; a second click on the same form grants nothing more", async () => {
    const { context, page, faults } = await open();
    const keyring = createKeyring(seeded.store, { clock: () => NOW });
    await keyring.createIdentity({ externalId: "plan-buyer", credits: { remaining: 100 } });
    const text = () => page.locator("#ks-main").innerText();
    await page.goto(`${served.url}/owners/plan-buyer`);
    await page.getByRole("link", { name: "Change plan" }).click();
    await page.getByLabel("Refill", { exact: true }).selectOption("monthly");
    await page.getByLabel("Credits per refill").fill("1,000");
    await page.getByLabel("Day", { exact: true }).fill("1");
    await page.getByLabel("Time zone").fill("Europe/Berlin");
    await page.getByLabel("Rollover", { exact: true }).fill("0");
    await page.getByLabel("Takes effect").selectOption("difference");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL(/notice=plan$/);
    expect(await text()).toContain("1,000 on day 1 of each month in Europe/Berlin, unused ones expire");
    await page.getByRole("link", { name: "Grant credits" }).click();
    await page.getByLabel("Credits", { exact: true }).fill("50");
    await page.getByLabel("Reason", { exact: true }).fill("bonus");
    await page.getByRole("button", { name: "Grant", exact: true }).dblclick();
    const granted = async () => (await keyring.getIdentity({ identity: "plan-buyer" })).credits?.granted;
    await expect.poll(granted, { timeout: 30_000 }).toBe(50);
    // The answer to the second click may take the browser elsewhere meanwhile.
    const shown = async () => {
      await page.goto(`${served.url}/owners/plan-buyer`);
      return text();
    };
    await expect.poll(shown, { timeout: 60_000, interval: 500 }).toMatch(/50 of 50[^]*bonus/);
    const { credits } = await keyring.getIdentity({ identity: "plan-buyer" });
    expect(credits).toMatchObject({ remaining: 1_100, granted: 50, refill: { rollover: 0 } });
    // The second click meets the form that the first one sent: a conflict is all that the browser may note.
    expect(faults.filter((fault) => !fault.includes("409"))).toEqual([]);
    await context.close();
  });

  it("signs out, and in again, by keyboard", async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await signIn(page);
    await tabTo(page, "button", "Sign out");
    await page.keyboard.press("Enter");
    await page.waitForURL(`${served.url}/sign-in`);
    await context.close();
  });

  it("a search is answered as one types, and the address says what was found", async () => {
    const { context, page, faults } = await open();
    await page.goto(`${served.url}/keys`);
    await page.getByLabel("Search").pressSequentially("partner", { delay: 20 });
    await page.locator("tbody tr").filter({ hasText: "Partner integration" }).waitFor();
    // Not by a function that waits in the page: its policy evaluates no text.
    await expect.poll(() => page.locator("tbody tr").count()).toBe(1);
    // On a slow host it is answered in between too.
    await page.waitForURL(/search=partner$|search=partner&/);
    expect(await page.evaluate("document.activeElement.id")).toBe("ks-search");
    // Another field changes the order, which says so.
    await page.getByLabel("Expires").selectOption("30");
    await expect.poll(() => page.locator("#ks-order option:checked").textContent()).toBe("Expiring soonest");
    expect(faults).toEqual([]);
    await context.close();
  });

  it("a search that takes long goes on by itself until it has looked at every key", async () => {
    const slow = await serve(
      slowly(seeded.store, () => {
        for (const until = performance.now() + 90; performance.now() < until;);
      }),
    );
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${slow.url}/sign-in`);
    await page.getByLabel("Root key").fill(seeded.rootKey);
    await page.keyboard.press("Enter");
    await page.waitForURL(`${slow.url}/`);
    await page.goto(`${slow.url}/keys?search=lap`);
    await page.locator("#ks-keys:not(.ks-going)").waitFor();
    expect(await page.locator("#ks-keys tbody tr").allInnerTexts()).toEqual([expect.stringContaining("Old laptop")]);
    await page.goto(`${slow.url}/keys?search=none-of-them`);
    await page.getByText("No key is found.").waitFor();
    await page.context().close();
    await slow.close();
  });

  it("a key that is pasted into a search leads to its page, and is in no address", async () => {
    const { context, page, faults } = await open();
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: served.url });
    const text = seeded.texts["Mobile app"] ?? "";
    const addresses: string[] = [];
    page.on("request", (request) => addresses.push(request.url()));
    await page.goto(`${served.url}/owners`);
    await page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(text)})`);
    await page.getByLabel("Search").focus();
    await page.keyboard.press("Control+V");
    await page.waitForURL(/notice=found$/);
    expect(new URL(page.url()).pathname).toBe(key("Mobile app"));
    await page.goto(`${served.url}/keys`);
    await page.getByLabel("Search").pressSequentially(text, { delay: 1 });
    await page.keyboard.press("Enter");
    await page.waitForURL(/notice=found$/);
    expect(addresses.filter((address) => address.includes(text.slice(0, 20)))).toEqual([]);
    expect(faults).toEqual([]);
    await context.close();
  });

  it("a form with a mistake opens at its field", async () => {
    const { context, page } = await open({ viewport: { width: 360, height: 600 } });
    await page.goto(`${served.url}/keys/new`);
    await page.getByLabel("Metadata").fill("{");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByText("meta must be").waitFor();
    expect(await page.evaluate("document.activeElement.id")).toBe("ks-meta");
    const [top, height] = await page.evaluate<number[]>(
      "[document.activeElement.getBoundingClientRect().top, innerHeight]",
    );
    expect(top).toBeGreaterThanOrEqual(0);
    expect(top).toBeLessThan(height ?? 0);
    await context.close();
  });

  it("the first Tab leads past the menu, and the focus is always to be seen", async () => {
    const { context, page } = await open();
    await page.goto(`${served.url}/keys`);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForURL(/#ks-main$/);
    expect(await page.evaluate("document.activeElement.id")).toBe("ks-main");
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press("Tab");
      expect(await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")).not.toBe("none");
    }
    await context.close();
  });
});
