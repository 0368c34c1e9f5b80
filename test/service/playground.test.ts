/** The playground as it is made, opened from its file in a real browser: verdicts, a caret, and no network. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../structure/source.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

// As for the pages of the service: without a browser there is nothing to try.
describe.skipIf(!existsSync(CHROMIUM))("playground", () => {
  const folder = mkdtempSync(join(tmpdir(), "keystile-playground-"));
  const file = join(folder, "index.html");
  const faults: string[] = [];
  let browser: Browser;
  let page: Page;
  beforeAll(async () => {
    execFileSync(process.execPath, ["--import", "tsx", "docs/playground/build.ts", file], { cwd: ROOT });
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
    page = await browser.newPage({ viewport: { width: 390, height: 900 } });
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("request", (request) => request.url().startsWith("file:") || faults.push(request.url()));
    await page.goto(pathToFileURL(file).href);
  });
  afterAll(async () => {
    await browser.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const verdictBecomes = (verdict: string) =>
    page
      .locator("#verdict")
      .filter({ hasText: new RegExp(`^${verdict}$`) })
      .waitFor();

  it("is one file of at most 295 kB, that fits a phone", async () => {
    await verdictBecomes("VALID");
    expect(statSync(file).size).toBeLessThanOrEqual(295_000);
    const overflow = `document.documentElement.scrollWidth - document.documentElement.clientWidth`;
    expect(await page.evaluate<number>(overflow)).toBe(0);
  });

  it("a query has its verdict while it is typed, with what the key has and lacks", async () => {
    await page.getByLabel("Permission query").fill("documents.read AND admin");
    await verdictBecomes("INSUFFICIENT_PERMISSIONS");
    expect(await page.locator("#checks .first").textContent()).toContain("has documents.read; lacks admin");
    await page.getByLabel("Permission query").fill("documents.read OR admin");
    await verdictBecomes("VALID");
  });

  it("a mistake in it has a caret below", async () => {
    await page.getByLabel("Permission query").fill("documents.read AND (admin");
    await verdictBecomes("400");
    const [query = "", caret = ""] = ((await page.locator("#mistake").textContent()) ?? "").split("\n");
    expect(query).toBe("documents.read AND (admin");
    expect(caret.indexOf("^")).toBe(query.length);
    expect(caret).toContain("body.permissions: ");
    await page.getByLabel("Permission query").fill("documents.read");
    await verdictBecomes("VALID");
  });

  it("a verification takes credits and calls, until the key is another", async () => {
    await page.getByLabel("Credits, or none").fill("1");
    await verdictBecomes("VALID");
    await page.getByRole("button").click();
    await verdictBecomes("USAGE_EXCEEDED");
    expect(JSON.parse((await page.locator("#result").textContent()) ?? "")).toMatchObject({
      code: "VALID",
      credits: 0,
    });
    await page.getByLabel("expired").check();
    await verdictBecomes("EXPIRED");
    await page.getByLabel("enabled").uncheck();
    await verdictBecomes("DISABLED");
  });

  it("nothing was asked of a network, and nothing went wrong", () => {
    expect(faults).toEqual([]);
  });
});
