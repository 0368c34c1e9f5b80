/** The site of the documentation: complete, without a dead link, and without anything from elsewhere. */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import MiniSearch from "minisearch";
import { type Browser, chromium } from "playwright-core";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { drawDiagram } from "../docs/site/diagram.js";
import { relink, render } from "../docs/site/markdown.js";
import { committedPages, placeOf } from "../docs/site/pages.js";
import { type Found, INDEX_OPTIONS, searchIn } from "../docs/site/search-options.js";
import { commandOf, libraryOf } from "../docs/site/twins.js";
import { listProblemTypes } from "../src/contracts/errors.js";
import { statusesOf } from "../src/http/docs/statuses.js";
import { OPERATIONS } from "../src/http/operations/index.js";
import * as library from "../src/index.js";
import { ROOT } from "./structure/source.js";
import { ENTRIES } from "./structure/surface.js";

const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
const folder = mkdtempSync(join(tmpdir(), "keystile-site-"));
const texts = new Map<string, string>();
const read = (place: string): string => {
  const text = texts.get(place) ?? readFileSync(join(folder, place), "utf8");
  texts.set(place, text);
  return text;
};
let places: string[] = [];
beforeAll(async () => {
  await promisify(execFile)(process.execPath, ["--import", "tsx", "docs/site/build.ts", folder], { cwd: ROOT });
  places = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((place) => place.endsWith(".html"));
}, 180_000);
afterAll(() => rmSync(folder, { recursive: true }));

/** What a page links to and shows, as written. */
const linksOf = (html: string): string[] =>
  [...html.matchAll(/\s(?:href|src|srcset)="([^"]*)"/g)].map(([, link = ""]) => link);
const isElsewhere = (link: string): boolean => /^([a-z]+:|\/)/.test(link);

/** Links that lead nowhere, as `page → link`. @param read the text of a page; undefined: there is none */
function deadLinks(pages: readonly string[], read: (place: string) => string | undefined): string[] {
  const ids = new Map<string, ReadonlySet<string>>();
  const idsOf = (place: string): ReadonlySet<string> => {
    const known =
      ids.get(place) ?? new Set([...(read(place) ?? "").matchAll(/\sid="([^"]*)"/g)].map(([, id = ""]) => id));
    ids.set(place, known);
    return known;
  };
  return pages.flatMap((page) =>
    [...new Set(linksOf(read(page) ?? ""))]
      .filter((link) => {
        if (/^[a-z]+:/.test(link)) return false;
        const [path = "", anchor] = link.split("#");
        const place = path === "" ? page : posix.join(posix.dirname(page), path);
        if (read(place) === undefined) return true;
        return anchor !== undefined && anchor !== "" && !idsOf(place).has(decodeURIComponent(anchor));
      })
      .map((link) => `${page} → ${link}`),
  );
}
const readIfThere = (place: string): string | undefined => (existsSync(join(folder, place)) ? read(place) : undefined);

describe("site: links", () => {
  it("none is dead", () => {
    expect(places.length).toBeGreaterThan(110);
    expect(deadLinks(places, readIfThere)).toEqual([]);
  });

  it("finds one that is", () => {
    const pages: Readonly<Record<string, string>> = {
      "a.html": '<a href="b/c.html#d">c</a> <a href="#e">e</a> <img src="f.png">',
      "b/c.html": '<h1 id="d">d</h1><a href="../a.html">a</a><a href="https://h">h</a>',
    };
    expect(deadLinks(Object.keys(pages), (place) => pages[place])).toEqual(["a.html → #e", "a.html → f.png"]);
  });

  it("every page of the repository is there, and whatever page there is can be reached from the first", () => {
    for (const path of committedPages().keys()) expect(places).toContain(placeOf(path));
    const reached = new Set(["index.html"]);
    for (const page of reached) {
      for (const link of linksOf(read(page)).filter((one) => !isElsewhere(one))) {
        const place = posix.join(posix.dirname(page), link.replace(/#.*/, "") || posix.basename(page));
        if (place.endsWith(".html")) reached.add(place);
      }
    }
    expect(places.filter((place) => !reached.has(place))).toEqual([]);
  });

  it("llms.txt, and the Markdown of each page, lead to Markdown that is there", () => {
    const copies = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((place) => place.endsWith(".md"));
    const dead: string[] = [];
    for (const text of ["llms.txt", "llms-full.txt", ...copies]) {
      relink(read(text), (link) => {
        const place = posix.join(posix.dirname(text), link.replace(/#.*/, ""));
        if (!/^([a-z]+:|#)/.test(link) && !existsSync(join(folder, place))) dead.push(`${text} → ${link}`);
        return link;
      });
    }
    expect(dead).toEqual([]);
    expect(read("llms.txt")).toContain("(http/keys.createKey.md)");
    expect(read("llms-full.txt").length).toBeGreaterThan(200_000);
  });
});

describe("site: nothing from elsewhere", () => {
  it("no page, style or script loads anything of another host, and a policy would stop it", () => {
    for (const place of places) {
      const html = read(place);
      const loaded = [...html.matchAll(/<(?:script|link|img|source|iframe)\b[^>]*>/g)].flatMap(([tag]) => linksOf(tag));
      expect([place, loaded.filter(isElsewhere)]).toEqual([place, []]);
      expect([place, /content-security-policy"\s+content="default-src 'none';/.test(html)]).toEqual([place, true]);
    }
    for (const place of ["style.css", "theme.js", "site.js"]) {
      expect([place, read(place).match(/https?:\/\/|@import|url\((?!#)/g)]).toEqual([place, null]);
    }
  });
});

describe("site: what is on it", () => {
  const config = ts.readConfigFile(join(ROOT, "tsconfig.json"), (path) => ts.sys.readFile(path)).config as object;
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);

  it("every export, on the page of an entry point, with every option that it has", () => {
    const doors = [...ENTRIES, "src/stores/postgres/index.ts"].map((path) => join(ROOT, path));
    const program = ts.createProgram(doors, { ...options, noEmit: true });
    const checker = program.getTypeChecker();
    const modules = places.filter((place) => place.startsWith("reference/keystile")).map(read);
    expect(modules.length).toBe(doors.length);
    const sections = modules.flatMap((html) => html.split(/(?=<h[123] id=")/));
    // One on each page that it can be imported from.
    const sectionOf = (name: string): string | undefined =>
      sections.filter((section) => new RegExp(`^<h3 id="[^"]*">(?:<code>)?${name}\\b`).test(section)).join("") ||
      undefined;
    const missing: string[] = [];
    for (const door of doors) {
      const module = checker.getSymbolAtLocation(program.getSourceFile(door)!)!;
      for (const symbol of checker.getExportsOfModule(module)) {
        const section = sectionOf(symbol.name);
        if (section === undefined) missing.push(symbol.name);
        else if (symbol.name.endsWith("Options")) {
          const whole = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
          const type = checker.getDeclaredTypeOfSymbol(whole);
          // Another name of a type refers to it.
          const text = section + (sectionOf(type.symbol?.name ?? "") ?? "");
          for (const { name } of checker.getPropertiesOfType(type))
            if (!new RegExp(`\\b${name}\\b`).test(text)) missing.push(`${symbol.name}.${name}`);
        }
      }
    }
    expect(missing).toEqual([]);
  });

  it.each(Object.keys(OPERATIONS))("%s, as it is called in the library, over HTTP and on the command line", (name) => {
    const html = read(`http/${name}.html`);
    const called = libraryOf(name);
    expect(html).toContain(called === undefined ? "only a service has callers" : `<code>${called}</code></a>`);
    expect(html).toContain(`<code>POST /v2/${name}</code>`);
    expect(html).toContain(`<code>keystile ${commandOf(name)}</code>`);
    expect(html).toContain(`Usage: keystile ${commandOf(name)} `);
    const { request, answer } = OPERATIONS[name]!;
    for (const field of [request, answer].flatMap(({ properties = {} }) => Object.keys(properties)))
      expect([field, html.includes(`<td><code>${field}</code>`)]).toEqual([field, true]);
    for (const status of statusesOf(OPERATIONS[name]!)) expect(html).toContain(`<td>${status}</td>`);
    expect(read("http-operations.html")).toContain(`href="http/${name}.html"`);
  });

  it("what an operation is called in the library is there to be called", () => {
    const store = library.memoryStore();
    const objects: Readonly<Record<string, object>> = {
      keyring: library.createKeyring(store),
      verifier: library.createVerifier(store),
      ratelimits: library.createRatelimits(store),
      analytics: library.createAnalytics(store),
    };
    for (const name of Object.keys(OPERATIONS)) {
      const called = libraryOf(name);
      if (called === undefined) continue;
      const [owner = "", method] = called.split(".");
      const found: unknown =
        method === undefined ? Reflect.get(library, owner) : Reflect.get(objects[owner] ?? {}, method);
      expect([name, typeof found]).toEqual([name, "function"]);
    }
  });

  it("every code of an error, each once, with what it comes from and what to do", () => {
    const html = read("errors.html");
    for (const { code } of listProblemTypes()) {
      expect([code, html.split(`<code id="${code}">`).length]).toEqual([code, 2]);
    }
    expect(read("http/keys.createKey.html")).toContain('href="../errors.html#IDEMPOTENCY_FULL"');
    // Where it is a type, it is one link and not 50 codes.
    expect(read("reference/keystile.html").split("STORE_FILE_LINKED").length).toBe(2);
  });

  it("every flag that a command declares", () => {
    const commands = join(ROOT, "src/cli/commands");
    const declared = readdirSync(commands).flatMap((file) => [
      ...readFileSync(join(commands, file), "utf8").matchAll(/(?:option|Option)\(\s*"(?:-\w, )?(--[a-z-]+)/g),
    ]);
    const flags = new Set(declared.map(([, flag = ""]) => flag));
    expect(flags.size).toBeGreaterThan(40);
    const pages = places
      .filter((place) => place === "commands.html" || place.startsWith("http/"))
      .map(read)
      .join();
    expect([...flags].filter((flag) => !pages.includes(flag))).toEqual([]);
  });

  it("search finds the sections that words stand in, and words with a typing error", () => {
    const [, json = ""] = /^self\.searchIndex = (.*);\n$/.exec(read("search-index.js")) ?? [];
    const index = MiniSearch.loadJSON<Found>(json, INDEX_OPTIONS);
    const first = (query: string): string[] =>
      searchIn(index, query)
        .slice(0, 4)
        .map(({ id }) => String(id));
    expect(first("permission queries")).toContain("permission-queries.html#permission-queries");
    expect(first("keys.createKey")).toContain("http/keys.createKey.html#keyscreatekey");
    expect(first("createVerifier").some((id) => id.startsWith("reference/keystile.html#createverifier"))).toBe(true);
    expect(first("permision qeury").some((id) => id.startsWith("permission-queries.html"))).toBe(true);
    expect(first("retry after")[0]).toBe("reference/keystile.html#retryafter");
    expect(first("memory limiter")[0]).toBe("rate-limits.html#memory");
    expect(first("permiss").some((id) => id.startsWith("permission-queries.html"))).toBe(true);
    expect(index.search("parameters").filter(({ heading }) => heading === "Parameters")).toEqual([]);
    expect(first("rate limited but should not").some((id) => id.startsWith("rate-limits.html"))).toBe(true);
    expect(first("migrate from better-auth")).toContain("migrating.html#from-better-auth");
    expect(first("can I use it on vercel with next").some((id) => /^recipes\/(next|serverless)/.test(id))).toBe(true);
    expect(first("STORE_SCHEMA_NEWER").some((id) => id.startsWith("errors.html"))).toBe(true);
    for (const { id } of index.search("credits")) {
      const [place = "", anchor = ""] = String(id).split("#");
      expect([id, read(place).includes(`id="${anchor}"`)]).toEqual([id, true]);
    }
  });
});

describe("site: the way from page to page", () => {
  it("a page opens its own group of the navigation, and leads to the pages before and after it", () => {
    const html = read("http/keys.createKey.html");
    expect(html).toContain("<details open><summary>keys.*</summary>");
    expect(html).toContain("<details><summary>apis.*</summary>");
    expect(html).toContain('<a href="keys.createKey.html" aria-current="page">');
    expect(html).toMatch(/rel="prev">keys\.\w+<.*rel="next">keys\.\w+</);
  });

  it("code that names an export, an operation or an error leads to it", () => {
    const html = read("testing.html") + read("errors.html") + read("verification.html");
    expect(html).toContain('<a class="name" href="reference/keystile/testing.html#expectoutcome">');
    expect(html).toContain('<a class="name" href="http/keys.explainKey.html">');
    expect(html).toContain('<a class="name" href="errors.html#META_INVALID">');
  });
});

describe("site: Markdown", () => {
  const resolve = (link: string): string => link.replace(/\.md\b/, ".html");

  it("headings have the anchors that GitHub makes, and links in code are left alone", () => {
    const { html, headings } = render("# A `b`, c\n\n## A b c\n\n[x](y.md#z) `[x](y.md)`\n", { resolve });
    expect(headings.map(({ id }) => id)).toEqual(["a-b-c", "a-b-c-1"]);
    expect(html).toContain('<a href="y.html#z">x</a> <code>[x](y.md)</code>');
    expect(relink("[`x`](y.md) `[x](y.md)`\n```\n[x](y.md)\n```\n", resolve)).toBe(
      "[`x`](y.html) `[x](y.md)`\n```\n[x](y.md)\n```\n",
    );
  });

  it("code is escaped, and coloured by its language", () => {
    const { html } = render('```ts run\nconst a = "<b>"; // c\n```\n', { resolve });
    expect(html).toContain(
      '<span class="keyword">const</span> a = <span class="string">&quot;&lt;b&gt;&quot;</span>; <span class="comment">// c</span>',
    );
  });

  it("a diagram that the site cannot draw is refused where the site is made", () => {
    expect(drawDiagram("flowchart TD\n  a{b?} -- no --> C")).toContain(
      "<strong>b?</strong><ul><li><em>no</em> → C</li>",
    );
    expect(() => drawDiagram("flowchart TD\n  a ==> b")).toThrow("cannot draw: a ==> b");
    expect(() => drawDiagram("sequenceDiagram\n")).toThrow("must be a flowchart");
  });
});

describe.skipIf(!existsSync(CHROMIUM))("site: in a browser, opened from its files", () => {
  let browser: Browser;
  beforeAll(async () => {
    const args = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"];
    browser = await chromium.launch({ executablePath: CHROMIUM, args });
  });
  afterAll(() => browser.close());

  const open = async (place: string, width: number, colorScheme: "light" | "dark" = "light") => {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    const faults: string[] = [];
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("request", (request) => request.url().startsWith("file:") || faults.push(request.url()));
    await page.goto(pathToFileURL(join(folder, place)).href);
    return { page, faults };
  };

  it("on a phone no page is wider than the screen", async () => {
    const { page, faults } = await open("index.html", 360);
    const shown = places.filter((place) => dirname(place) === "." || place === "bench/index.html");
    for (const place of [...shown, "http/keys.createKey.html", "reference/keystile/express.html"]) {
      await page.goto(pathToFileURL(join(folder, place)).href);
      const overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
      expect([place, await page.evaluate<number>(overflow)]).toEqual([place, 0]);
    }
    expect(faults).toEqual([]);
    await page.close();
  });

  it("on a phone the list of pages is closed, beside a text it is open", async () => {
    for (const [width, isOpen] of [
      [360, false],
      [1_300, true],
    ] as const) {
      const { page } = await open("docs.html", width);
      expect(await page.evaluate<boolean>('document.querySelector(".menu").open')).toBe(isOpen);
      await page.close();
    }
  });

  it("a button beside code copies it", async () => {
    const { page, faults } = await open("index.html", 1_300);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.locator(".code button").first().click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    expect(await page.evaluate<string>("navigator.clipboard.readText()")).toBe("npm install keystile express");
    expect(faults).toEqual([]);
    await page.close();
  });

  it("a word that is typed leads to its section", async () => {
    const { page, faults } = await open("docs.html", 1_300);
    await page.keyboard.press("/");
    await page.keyboard.type("qqqq");
    await page.getByText("Nothing found").waitFor();
    await page.keyboard.press("Control+k");
    await page.keyboard.type("permission queries");
    await page.getByRole("option").first().waitFor();
    await page.keyboard.press("ArrowDown");
    expect(await page.getByRole("option").nth(1).getAttribute("aria-selected")).toBe("true");
    await page.keyboard.press("Escape");
    expect(await page.getByRole("listbox", { includeHidden: true }).isVisible()).toBe(false);
    await page.keyboard.press("Control+k");
    await page.keyboard.type("permission queries");
    await page.getByRole("option").first().waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/permission-queries\.html#permission-queries$/);
    expect(faults).toEqual([]);
    await page.close();
  });

  it("light or dark as the system has it, until the reader chooses", async () => {
    const { page, faults } = await open("index.html", 1_300, "dark");
    const background = () => page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
    const picture = () => page.evaluate<string>('document.querySelector("picture img").currentSrc');
    const dark = await background();
    expect([dark, await picture()]).toEqual(["rgb(19, 22, 25)", expect.stringContaining("console-dark.png")]);
    await page.locator("button.theme").click();
    expect([await background(), await picture()]).toEqual([
      "rgb(255, 255, 255)",
      expect.stringContaining("console-light.png"),
    ]);
    await page.reload();
    expect(await background()).not.toBe(dark);
    expect(faults).toEqual([]);
    await page.close();
  });
});
