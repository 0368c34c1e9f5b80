/** The portal in a real browser: on a phone and on a desk, light and dark, with and without scripts; its pictures. */
import { createServer } from "node:http";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createPortalListener } from "../../src/portal/index.js";
import { HOSTILE, listen } from "../console/support.js";
import { openShop, optionsOf, type Shop } from "../portal/support.js";
import { ROOT } from "../structure/source.js";
import { fillShop } from "../portal/showcase.js";
import { differenceOf, TOLERANCE } from "./compare.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const ALONE = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync";
/** The rules of accessibility. */
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIZES = [
  [1_440, "light"],
  [360, "dark"],
] as const;
const PICTURE = { width: 1_120, height: 720 };
const LOGO = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><circle cx="12" cy="12" r="11" fill="#0a7a5c"/></svg>`;
const THEME = {
  name: "Acme",
  logo: "/logo.svg",
  light: { accent: "#0a7a5c" },
  dark: { accent: "#5fd3ae", onAccent: "#06231a" },
} as const;

/** Sends a form twice at once: whether the page drops each of them. */
const TWICE = `{
  const dropped = [], form = document.querySelector("form");
  addEventListener("submit", (event) => (dropped.push(event.defaultPrevented), event.preventDefault()));
  form.requestSubmit(), form.requestSubmit(), dropped
}`;

// Without a browser there is nothing to try; continuous integration installs one, and fails where this is skipped.
describe.skipIf(!existsSync(CHROMIUM))("portal in a browser", { timeout: 240_000 }, () => {
  let shop: Shop;
  let url: string;
  let browser: Browser;
  let close: () => Promise<unknown>;
  beforeAll(async () => {
    shop = await openShop();
    await fillShop(shop);
    const listener = createPortalListener(shop.keyring, optionsOf(shop, { basePath: "/account", theme: THEME }));
    const server = createServer((request, response) => {
      if (!/^\/(?:logo.svg|favicon.ico)$/.test(request.url ?? "")) return listener(request, response);
      response.writeHead(200, { "content-type": "image/svg+xml" });
      response.end(LOGO);
    });
    url = await listen(server);
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ALONE.split(" ") });
    close = async () => {
      await browser.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await listener.close();
    };
  });
  afterAll(() => close());

  /** A page of an owner, and what went wrong on it. */
  async function open(owner: string, options: Parameters<Browser["newContext"]>[0] = {}) {
    const context = await browser.newContext(options);
    await context.addCookies([{ name: "user", value: owner, url }]);
    const page = await context.newPage();
    const faults: string[] = [];
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("request", (request) => new URL(request.url()).origin !== url && faults.push(request.url()));
    return { context, page, faults };
  }

  // As text: this file is compiled without the types of browsers.
  const overflow = (page: Page) =>
    page.evaluate<number>("document.documentElement.scrollWidth - document.documentElement.clientWidth");

  async function violations(page: Page): Promise<readonly string[]> {
    // Not as a script of the page, which its policy forbids.
    await page.evaluate(AXE);
    return page.evaluate<string[]>(
      "axe.run().then(({ violations }) => violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html.slice(0, 160)).join(' ')))",
    );
  }

  it.each(SIZES)(
    "at %i pixels, %s: no page overflows, fails, or loads from elsewhere; axe finds nothing",
    async (width, colorScheme) => {
      const { context, page, faults } = await open("globex", { viewport: { width, height: 900 }, colorScheme });
      const id = (await shop.keyring.listKeys({ apiId: shop.apiId, externalId: "globex" })).data[0]?.keyId ?? "";
      for (const path of [
        "/",
        "/new",
        "/usage",
        "/statement",
        `/keys/${id}`,
        `/keys/${id}/rotate`,
        `/keys/${id}/revoke`,
        "/?notice=nowRevoked",
      ]) {
        await page.goto(`${url}/account${path}`);
        expect([path, await overflow(page), await violations(page)]).toEqual([path, 0, []]);
      }
      await page.goto(`${url}/account/new`);
      for (const box of await page.locator("input[type=checkbox]").all()) await box.uncheck();
      await page.click("text=Make the key");
      expect([await page.locator("[aria-invalid]").count(), await violations(page)]).toEqual([1, []]);
      expect(faults.filter((fault) => !fault.includes("400"))).toEqual([]);
      await context.close();
    },
  );

  it.each([
    ["with scripts", true],
    ["without", false],
  ])("%s: a key is made, copied, renamed, replaced and revoked", async (name, javaScriptEnabled) => {
    const owner = `owner ${name}`.replaceAll(" ", "-");
    const { context, page, faults } = await open(owner, {
      javaScriptEnabled,
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await page.goto(`${url}/account/`);
    await page.click("text=New key");
    if (javaScriptEnabled) {
      expect(await page.evaluate(TWICE)).toEqual([false, true]);
      await page.reload();
    }
    await page.fill("[name=name]", HOSTILE[1] ?? "");
    await page.click("text=Make the key");
    const secret = await page.inputValue("#ks-secret");
    expect(secret).toMatch(/^rep_/);
    if (javaScriptEnabled) {
      await page.click("[data-copy]");
      await page.locator("button:text('Copied')").waitFor();
      expect(await page.evaluate<string>("navigator.clipboard.readText()")).toBe(secret);
      expect(await violations(page)).toEqual([]);
    } else expect(await page.locator("[data-copy]").isVisible()).toBe(false);
    await page.click("text=Go to the key");
    expect(await page.textContent("h1")).toBe(HOSTILE[1]);
    await page.fill("[name=name]", "server");
    await page.click("text=Rename");
    await page.click("text=Replace");
    await page.click("button:text('Replace')");
    expect(await page.inputValue("#ks-secret")).not.toBe(secret);
    await page.goto(`${url}/account/`);
    expect(await page.locator("tbody tr").count()).toBe(2);
    expect(await page.content()).not.toContain(secret);
    for (let left = 2; left > 0; left--) {
      await page.locator("tbody a").first().click();
      await page.click("text=Revoke");
      await page.click("button:text('Revoke')");
      await page.locator("text=The key is revoked.").waitFor();
    }
    expect(await page.locator("text=There are no keys yet.").count()).toBe(1);
    expect([faults, javaScriptEnabled && (await page.evaluate("window.hurt"))]).toEqual([
      [],
      javaScriptEnabled && undefined,
    ]);
    await context.close();
  });

  it("in a frame: for the pages that it names, and no others", async () => {
    const server = createServer((_request, response) => {
      response.writeHead(200, { "content-type": "text/html" });
      response.end(`<iframe src="${framed}/account/"></iframe>`);
    });
    let framed = url;
    const host = await listen(server);
    const frameAncestors = [host.replace("127.0.0.1", "localhost")];
    const listener = createPortalListener(
      shop.keyring,
      optionsOf(shop, { basePath: "/account", owner: () => "globex", frameAncestors }),
    );
    const open = createServer((request, response) => listener(request, response));
    const named = await listen(open);
    const page = await browser.newPage();
    const shown = async (from: string, to: string): Promise<boolean> => {
      framed = to;
      await page.goto(from);
      return (await page.frameLocator("iframe").locator(".ks-main").count()) > 0;
    };
    expect([await shown(host, url), await shown(host, named), await shown(frameAncestors[0] ?? "", named)]).toEqual([
      false,
      false,
      true,
    ]);
    await page.close();
    for (const one of [server, open]) {
      one.closeAllConnections();
      await new Promise((resolve) => one.close(resolve));
    }
    await listener.close();
  });

  async function shoot(colorScheme: "light" | "dark", change = ""): Promise<Buffer> {
    const { context, page } = await open("globex", { viewport: PICTURE, colorScheme });
    await page.goto(`${url}/account/`);
    await page.evaluate(change);
    const picture = await page.screenshot();
    await context.close();
    return picture;
  }

  it.each(["light", "dark"] as const)("%s: the picture in docs/ is what the portal looks like", async (scheme) => {
    const file = join(ROOT, "docs", `portal-${scheme}.png`);
    const shown = await shoot(scheme);
    if (process.env["PICTURES"] === "write") writeFileSync(file, shown);
    const kept = readFileSync(file);
    expect(await differenceOf(browser, kept, shown)).toBeLessThan(TOLERANCE);
    const other = await shoot(scheme === "light" ? "dark" : "light");
    expect(await differenceOf(browser, kept, other)).toBeGreaterThan(20 * TOLERANCE);
    // Words are most of it: a page without its tables must be seen.
    const without = await shoot(scheme, `document.querySelector("main").style.visibility = "hidden"`);
    expect(await differenceOf(browser, kept, without)).toBeGreaterThan(TOLERANCE);
  });
});
