/** examples/saas in a real browser: sign up, make, use, rename, rotate and revoke keys; usage, an upgrade. */
import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createKeyring } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const ALONE = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync";
const ROOT = process.cwd();
const SECRET = "of the payment provider";

// Each customer at the same time: counts and mails come every few seconds.
describe.skipIf(!existsSync(CHROMIUM)).concurrent("examples/saas in a browser", () => {
  const folder = mkdtempSync(join(tmpdir(), "keystile-saas-"));
  const mails = join(folder, "mails.txt");
  let browser: Browser;
  let url = "";
  let stop: () => Promise<unknown>;
  beforeAll(async () => {
    const program = join(ROOT, "examples", "saas", "server.ts");
    const tsx = join(ROOT, "node_modules", "tsx", "dist", "cli.mjs");
    const argv = [tsx, "--tsconfig", join(ROOT, "examples", "tsconfig.json"), program, join(folder, "saas.db"), mails];
    const env = { ...process.env, WEBHOOK_SECRET: SECRET };
    const child = spawn(process.execPath, argv, { env, stdio: ["ignore", "pipe", "inherit"] });
    const ended = new Promise((resolve) => child.once("exit", resolve));
    stop = () => (child.kill(), ended);
    for await (const line of createInterface(child.stdout)) {
      url = line;
      break;
    }
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ALONE.split(" ") });
  });
  afterAll(async () => {
    await browser.close();
    await stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const signUp = async (email: string): Promise<Page> => {
    const page = await (await browser.newContext()).newPage();
    await page.goto(url);
    await page.fill("[name=email]", email);
    await page.click("text=Sign up");
    await page.waitForURL(`${url}/account/`);
    return page;
  };
  const leftOn = async (page: Page) => Number((await page.textContent("#ks-left"))?.replace(",", ""));
  /** Makes a key. @returns its text */
  const make = async (page: Page, name = ""): Promise<string> => {
    await page.goto(`${url}/account/new`);
    await page.fill("[name=name]", name);
    await page.click("text=Make the key");
    return page.inputValue("#ks-secret");
  };
  const call = (key: string, times: number) =>
    Promise.all(
      Array.from({ length: times }, async () => {
        const { status } = await fetch(`${url}/reports`, { headers: { authorization: `Bearer ${key}` } });
        return status;
      }),
    );

  it("a plan is the customer's, whatever keys they make", async () => {
    const page = await signUp("ann@example.com");
    expect(await leftOn(page)).toBe(1_000);
    const first = await make(page, "<b>laptop</b>");
    expect(first).toMatch(/^rep_/);
    await page.goto(`${url}/account/`);
    expect(await page.locator("table a").allTextContents()).toEqual(["<b>laptop</b>"]);
    // 100 a minute, over both keys: one comes back every 600 ms.
    const began = Date.now();
    expect((await call(first, 60)).filter((status) => status === 200)).toHaveLength(60);
    const second = await make(page, "second");
    const statuses = await call(second, 60);
    const granted = statuses.filter((status) => status === 200).length;
    expect(granted).toBeGreaterThanOrEqual(40);
    expect(granted).toBeLessThanOrEqual(40 + Math.floor((Date.now() - began) / 600));
    expect(statuses.filter((status) => status === 429)).toHaveLength(60 - granted);
    await page.goto(`${url}/account/`);
    const left = await leftOn(page);
    expect(left).toBe(940 - granted);
    // Counted every five seconds.
    await vi.waitFor(
      async () => {
        await page.goto(`${url}/account/usage`);
        const spent = await page.locator("td[data-title='Credits spent']").allTextContents();
        // By key, and of the day.
        expect(spent.toSorted()).toEqual(["60", String(granted), String(1_000 - left)].toSorted());
      },
      { timeout: 60_000, interval: 500 },
    );
    await page.goto(`${url}/account/`);
    await page.click("text=second");
    await page.click("text=Revoke");
    await page.click("button:text('Revoke')");
    await page.waitForURL(/notice=nowRevoked/);
    expect(await call(second, 1)).toEqual([401]);
    expect(await leftOn(page)).toBe(left);
  });

  it("renames and rotates; another customer sees none of it", async () => {
    const page = await signUp("ben@example.com");
    expect(await page.locator("table a").count()).toBe(0);
    const old = await make(page);
    await page.click("text=Go to the key");
    await page.fill("[name=name]", "server");
    await page.click("text=Rename");
    await page.click("text=Replace");
    await page.selectOption("[name=overlap]", "0");
    await page.click("button:text('Replace')");
    const made = await page.inputValue("#ks-secret");
    expect([await call(made, 1), await call(old, 1)]).toEqual([[200], [401]]);
    const stranger = await (await browser.newContext()).newPage();
    await stranger.goto(`${url}/account/`);
    expect(stranger.url()).toBe(`${url}/`);
  });

  it("an upgrade that is delivered twice, and again after a downgrade, counts once; an unsigned one never", async () => {
    const page = await signUp("dora@example.com");
    const deliver = async (id: string, plan: string, secret = SECRET) => {
      const body = JSON.stringify({ id, plan, customer: "dora@example.com" });
      const headers = {
        "content-type": "application/json",
        "x-signature": createHmac("sha256", secret).update(body).digest("hex"),
      };
      return (await fetch(`${url}/webhooks/payment`, { method: "POST", body, headers })).status;
    };
    const shown = async () => {
      await page.goto(`${url}/account/`);
      return (await page.locator("td[data-title=Left]").first().textContent())?.replaceAll(",", "").split(" of ");
    };
    expect(await shown()).toEqual(["1000", "1000"]);
    expect(await deliver("evt_0", "pro", "of somebody else")).toBe(401);
    expect(await shown()).toEqual(["1000", "1000"]);
    expect(await Promise.all([deliver("evt_1", "pro"), deliver("evt_1", "pro")])).toEqual([204, 204]);
    expect(await shown()).toEqual(["10000", "10000"]);
    // A smaller plan takes nothing away, and a late repeat of the upgrade brings nothing back.
    expect(await deliver("evt_2", "free")).toBe(204);
    expect(await deliver("evt_1", "pro")).toBe(204);
    expect(await shown()).toEqual(["10000"]);
    expect(await page.locator("td[data-title='Next credits']").first().textContent()).toContain("+1,000 on");
  });

  it("a mail comes as the credits run low, once", async () => {
    const page = await signUp("cem@example.com");
    const key = await make(page);
    const store = sqliteStore(join(folder, "saas.db"));
    await createKeyring(store).updateIdentityCredits({ identity: "cem@example.com", operation: "set", value: 103 });
    expect(await call(key, 2)).toEqual([200, 200]);
    expect(existsSync(mails)).toBe(false);
    expect(await call(key, 3)).toEqual([200, 200, 200]);
    await vi.waitFor(() => expect(readFileSync(mails, "utf8").split("\n")[0]).toBe("To: cem@example.com"), {
      timeout: 15_000,
      interval: 200,
    });
    expect(readFileSync(mails, "utf8").match(/To:/g)).toHaveLength(1);
    await store.close();
  });
});
