/** The pages of the service in a real browser: complete, readable on a phone, and without anything from elsewhere. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createServer } from "../../src/http/index.js";
import { OPERATIONS } from "../../src/http/operations/index.js";
import { memoryStore } from "../../src/index.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const ALONE = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync";

// Without a browser there is nothing to try; continuous integration installs one, and fails where this is skipped.
describe.skipIf(!existsSync(CHROMIUM))("/docs in a browser", () => {
  const folder = mkdtempSync(join(tmpdir(), "keystile-browser-"));
  const server = createServer(memoryStore());
  let url = "";
  let browser: Browser;
  beforeAll(async () => {
    ({ url } = await server.listen({ port: 0 }));
    const args = [...ALONE.split(" "), "--disable-component-update"];
    browser = await chromium.launch({ executablePath: CHROMIUM, args });
  });
  afterAll(async () => {
    await browser.close();
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const open = async (path: string, width: number, colorScheme: "light" | "dark") => {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    const faults: string[] = [];
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("request", (request) => new URL(request.url()).origin !== url && faults.push(request.url()));
    await page.goto(url + path);
    return { page, faults };
  };

  it.each([
    [1_280, "light"],
    [1_280, "dark"],
    [390, "light"],
  ] as const)(
    "at %i pixels, %s: every operation is listed and has a page, nothing is cut off or fetched from elsewhere",
    async (width, scheme) => {
      const { page, faults } = await open("/docs", width, scheme);
      const names = await page.locator("li a").allTextContents();
      expect(names.sort()).toEqual(Object.keys(OPERATIONS).sort());
      const overflows = `document.documentElement.scrollWidth - document.documentElement.clientWidth`;
      expect(await page.evaluate<number>(overflows)).toBe(0);
      await page.goto(`${url}/docs/keys.createKey`);
      // As text: this file is compiled without the types of browsers.
      const { overflow, background, text, size } = await page.evaluate<{
        overflow: number;
        background: string;
        text: string;
        size: number;
      }>(`({
        overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        background: getComputedStyle(document.body).backgroundColor,
        text: getComputedStyle(document.body).color,
        size: document.querySelector("table").getBoundingClientRect().width,
      })`);
      expect(overflow).toBe(0);
      expect(size).toBeGreaterThan(200);
      const brightness = (color: string): number => Number(/\d+/.exec(color)?.[0]);
      expect(brightness(text) < brightness(background)).toBe(scheme === "light");
      // An empty page compresses to a few kilobytes.
      expect((await page.screenshot({ path: join(folder, `docs-${width}-${scheme}.png`) })).length).toBeGreaterThan(
        20_000,
      );
      expect(faults).toEqual([]);
      await page.close();
    },
  );

  it("a link of the list leads to its operation, an error of it to its page, and both back", async () => {
    const { page, faults } = await open("/docs", 1_280, "light");
    await page.getByRole("link", { name: "keys.verifyKey", exact: true }).click();
    expect(await page.locator("h1").textContent()).toBe("keys.verifyKey");
    await page.locator('a[href^="/docs/errors/"]').first().click();
    expect(await page.locator("h1").textContent()).not.toBe("keys.verifyKey");
    await page.getByRole("link", { name: "All operations" }).click();
    expect(await page.locator("h1").textContent()).toBe("keystile");
    expect(faults).toEqual([]);
    await page.close();
  });

  it("the box leaves of the list what has all words, and groups without any go", async () => {
    const { page, faults } = await open("/docs", 1_280, "light");
    await page.getByLabel("Filter").fill("KEY setroles");
    expect(await page.locator("li:visible a").allTextContents()).toEqual(["keys.setRoles"]);
    expect(await page.locator("h2:visible").allTextContents()).toEqual(["Keys"]);
    await page.getByLabel("Filter").fill("");
    expect(await page.locator("li:visible").count()).toBe(Object.keys(OPERATIONS).length);
    expect(faults).toEqual([]);
    await page.close();
  });

  it("without scripts the list is whole, and there is no box", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(`${url}/docs`);
    expect(await page.locator("li:visible").count()).toBe(Object.keys(OPERATIONS).length);
    expect(await page.locator("input:visible").count()).toBe(0);
    await context.close();
  });
});
