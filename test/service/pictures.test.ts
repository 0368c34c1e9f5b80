/**
 * The pictures of the console in the README are made here, and are what the console looks like: `PICTURES=write npx
 * vitest run --project served test/service/pictures.test.ts` writes them anew.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createVerifier } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { fillShowcase } from "../console/showcase.js";
import { NOW, serve } from "../console/support.js";
import { ROOT } from "../structure/source.js";
import { differenceOf, TOLERANCE } from "./compare.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const SIZE = { width: 1_120, height: 1_090 };

describe.skipIf(!existsSync(CHROMIUM))("pictures of the console", { timeout: 240_000 }, () => {
  let browser: Browser;
  let url: string;
  let cookies: Awaited<ReturnType<BrowserContext["cookies"]>>;
  let path: string;
  let close: () => Promise<unknown>;

  beforeAll(async () => {
    const store = sqliteStore(":memory:");
    const made = await fillShowcase(store, NOW);
    const verifier = createVerifier(store, { clock: () => NOW });
    const served = await serve(store, { verifier });
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
    url = served.url;
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${url}/sign-in`);
    await page.getByLabel("Root key").fill(made.rootKey);
    await page.keyboard.press("Enter");
    await page.waitForURL(`${url}/`);
    cookies = await context.cookies();
    await context.close();
    path = `/keys/${made.keys["Mobile app"]}?query=documents.read+AND+exports.run&address=203.0.113.9`;
    close = async () => {
      await browser.close();
      await served.close();
      await verifier.close();
      await store.close();
    };
  }, 120_000);
  afterAll(() => close());

  /** The page of a key. @param change done to the page before, as text of a script */
  async function shoot(colorScheme: "light" | "dark", change = ""): Promise<Buffer> {
    const context = await browser.newContext({ viewport: SIZE, colorScheme });
    await context.addCookies(cookies);
    const page = await context.newPage();
    await page.goto(url + path);
    await page.evaluate(change);
    const picture = await page.screenshot();
    await context.close();
    return picture;
  }

  const difference = (...pictures: readonly [Buffer, Buffer]): Promise<number> => differenceOf(browser, ...pictures);

  it.each(["light", "dark"] as const)("%s: the one in docs/ is what the console looks like", async (scheme) => {
    const file = join(ROOT, "docs", `console-${scheme}.png`);
    const shown = await shoot(scheme);
    if (process.env["PICTURES"] === "write") writeFileSync(file, shown);
    const kept = readFileSync(file);
    expect(await difference(kept, shown)).toBeLessThan(TOLERANCE);
    // What must be seen: other colours, and a verdict or refusals that are not there.
    const other = await shoot(scheme === "light" ? "dark" : "light");
    expect(await difference(kept, other)).toBeGreaterThan(20 * TOLERANCE);
    for (const part of ["#ks-found", ".ks-alert"]) {
      const without = await shoot(scheme, `document.querySelector('${part}').style.display = "none"`);
      expect(await difference(kept, without)).toBeGreaterThan(TOLERANCE);
    }
  });
});
