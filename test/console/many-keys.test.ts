/** Lists and the overview where there are many keys: what takes long is dated, or goes on where it stopped. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { createKeyring, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { type Client, client } from "./client.js";
import { NOW, seed, slowly } from "./support.js";

const DAY = 86_400_000;
const MINUTE = 60_000;

async function signedIn(store: Store, clock: () => number) {
  const seeded = await seed(store);
  const browser = client(store, { clock });
  await browser.signIn(seeded.rootKey);
  return { ...seeded, browser };
}

const moreOf = (text: string): string | undefined => /data-more="([^"]*)"/.exec(text)?.[1]?.replaceAll("&amp;", "&");

/** Follows a list as the script does. @returns names of keys, and what each part said of how far it was */
async function follow(browser: Client, path: string) {
  const said: string[] = [];
  const names: string[] = [];
  for (let next: string | undefined = path; next !== undefined;) {
    const { text, status } = await browser.get(next);
    expect(status).toBe(200);
    const part = text.slice(text.indexOf('id="ks-keys"')).split("Deleted keys")[0] ?? "";
    names.push(...[...part.matchAll(/<bdi class="ks-name"[^>]*>([^<]*)<\/bdi><\/a>/g)].map(([, name = ""]) => name));
    said.push(/role="status">([^<]*)</.exec(part)?.[1] ?? "");
    next = moreOf(part);
    expect(said.length).toBeLessThan(60);
  }
  return { names: names.filter((name) => !["acme", "globex", "initech"].includes(name)), said };
}

afterEach(() => void vi.restoreAllMocks());

describe("console: a search that takes long", () => {
  it("goes on where it stopped, says how far it is, and finds each key once", async () => {
    let now = 0;
    const store = slowly(sqliteStore(":memory:"), () => (now += 100));
    const { browser } = await signedIn(store, () => NOW);
    vi.spyOn(performance, "now").mockImplementation(() => now);
    const { names, said } = await follow(browser, "/keys?search=lap");
    expect(names).toEqual(["Old laptop"]);
    expect(said.length).toBeGreaterThan(2);
    expect(said.slice(0, -1).every((text) => /^Searched (\d+ %|[\d,]+ keys?)\.$/.test(text))).toBe(true);
    expect(said.at(-1)).toBe("");
    expect((await browser.get("/keys?search=nothing")).text).toContain("Nothing is found so far.");
    const nothing = await follow(browser, "/keys?search=nothing");
    expect(nothing.names).toEqual([]);
    await store.close();
  });

  it("without a script the form asks for one long answer, which says where to go on", async () => {
    let now = 0;
    const store = slowly(sqliteStore(":memory:"), () => (now += 100));
    const { browser } = await signedIn(store, () => NOW);
    vi.spyOn(performance, "now").mockImplementation(() => now);
    const { text } = await browser.get("/keys?search=nothing");
    expect(text).toContain('<noscript><input type="hidden" name="long" value="1"></noscript>');
    expect(text).toContain("Go on");
    expect((await browser.get("/keys?search=nothing&long=1")).text).toContain("No key is found.");
    await store.close();
  });
});

describe("console: what is worked out for all", () => {
  it("is dated once it is old, as it was before while it is worked out anew, and never waited for", async () => {
    let [now, waiting] = [NOW, true];
    let release = (): void => undefined;
    const inner = sqliteStore(":memory:");
    const hold = async <T>(read: () => T): Promise<T> => {
      if (waiting) await new Promise<void>((resolve) => (release = resolve));
      return read();
    };
    const store: Store = { ...inner, countKeys: (count) => hold(() => inner.countKeys!(count)) as never };
    const { browser } = await signedIn(store, () => now);
    const first = await browser.get("/");
    expect(first.text).toContain("Being counted for the first time.");
    expect(first.text).toContain('id="ks-counts" class="ks-going" data-again');
    waiting = false;
    release();
    await vi.waitFor(async () => expect((await browser.get("/")).text).toContain("Disabled</dt>"), 20_000);
    expect((await browser.get("/")).text).not.toContain("As of");
    now += 2 * MINUTE;
    waiting = true;
    const old = await browser.get("/");
    expect(old.text).toContain("As of");
    expect(old.text).toContain('title="2026-11-24 12:00:00 UTC"');
    waiting = false;
    release();
    await store.close();
  });

  it("orders by credits and last use are dated too, and are waited for as little", async () => {
    let [now, waiting] = [NOW, true];
    let release = (): void => undefined;
    const inner = sqliteStore(":memory:");
    const store: Store = {
      ...inner,
      async searchKeys(search) {
        if (waiting && search.order === "any") await new Promise<void>((resolve) => (release = resolve));
        return inner.searchKeys!(search);
      },
    };
    const { browser } = await signedIn(store, () => now);
    expect((await browser.get("/keys?order=credits")).text).toContain("Being put in order for the first time.");
    waiting = false;
    release();
    await vi.waitFor(async () => expect((await browser.get("/keys?order=credits")).text).toContain("Trial"), 20_000);
    await vi.waitFor(async () => expect((await browser.get("/keys?state=exhausted")).text).toContain("Trial"), 20_000);
    now += 30_000;
    expect((await browser.get("/keys?order=credits")).text).toContain("As of <time");
    await store.close();
  });
});

describe("console: what ends soon", () => {
  it("begins with what expires next, and has a filter and a link to all", async () => {
    const store = sqliteStore(":memory:");
    const { browser, apiId } = await signedIn(store, () => NOW);
    const early = createKeyring(store, { clock: () => NOW - 40 * DAY });
    await early.createKey({ apiId, name: "gone a month ago", expires: NOW - 30 * DAY });
    const names = async (path: string) => (await follow(browser, path)).names;
    expect(await names("/keys?order=expires")).toEqual(["Trial", "Mobile app", "Partner integration"]);
    expect(await names("/keys?order=expires&state=expired")).toEqual(["gone a month ago"]);
    expect(await names("/keys?ends=7")).toEqual(["Trial"]);
    expect(await names("/keys?ends=30")).toEqual(["Trial", "Mobile app"]);
    expect(await names("/keys?ends=30&order=credits")).toEqual(["Trial", "Mobile app"]);
    expect((await browser.get("/")).text).not.toContain("ends=30");
    const keyring = createKeyring(store, { clock: () => NOW });
    for (let n = 0; n < 8; n++) await keyring.createKey({ apiId, name: `soon ${n}`, expires: NOW + DAY });
    expect((await browser.get("/")).text).toContain('href="/keys?ends=30"');
    await store.close();
  });
});
