/** Options of the portal: what they change, and what is refused at once. */
import { describe, expect, it } from "vitest";
import { createAnalytics, createKeyring } from "../../src/index.js";
import { createPortal, createPortalListener, type PortalOptions } from "../../src/portal/index.js";
import { KEY_STATES } from "../../src/lib/key-state.js";
import { ENGLISH, type TextName } from "../../src/portal/texts.js";
import { browse, openShop, optionsOf } from "./support.js";
import { filesBelow } from "./files.js";

const shop = await openShop();
const create = (more: Partial<PortalOptions>) => createPortal(shop.keyring, optionsOf(shop, more));
const style = async (more: Partial<PortalOptions>): Promise<string> =>
  (await browse(shop, undefined, more).get("/portal.css")).text;
const policy = async (more: Partial<PortalOptions>): Promise<string> =>
  (await browse(shop, "ann", more).get("/")).headers.get("content-security-policy") ?? "";

describe("createPortal", () => {
  it("what narrows is there, and a keyring is one", () => {
    const { owner, ...rest } = optionsOf(shop);
    expect(() => createPortal(shop.keyring, rest as never)).toThrow("options.owner");
    const { apiId: _, ...lost } = optionsOf(shop);
    expect(() => createPortal(shop.keyring, lost as never)).toThrow("apiId");
    for (const name of ["apiId", "owner", "ceiling"])
      expect(() => create({ [name]: undefined })).toThrow(new RegExp(`options.${name}`));
    expect(() => createPortal({} as never, { owner, apiId: shop.apiId })).toThrow("keyring must be one");
    expect(() => createPortalListener(shop.keyring, { ...optionsOf(shop), hosts: [] } as never)).toThrow(
      "hosts is not an option",
    );
    expect(() => create({ ceiling: { keys: 0 } })).toThrow("options.ceiling.keys");
    expect(() => create({ ceiling: { permissions: Array.from({ length: 101 }, (_, i) => `p${i}`) } })).toThrow(
      "at most 100",
    );
  });

  it("analytics of another workspace, or of another's making, would show another customer of the same name", () => {
    const analytics = createAnalytics(shop.store, { workspaceId: "ws_other" });
    expect(() => create({ analytics })).toThrow("options.analytics");
    expect(() => create({ analytics: { statement: createAnalytics(shop.store).statement } })).toThrow(
      "options.analytics",
    );
    const keyring = createKeyring(shop.store, { workspaceId: "ws_other" });
    expect(() => createPortal(keyring, optionsOf(shop, { analytics }))).not.toThrow();
  });

  it("analytics of another store of the same workspace are another shop's", async () => {
    const other = await openShop();
    expect(() => create({ analytics: createAnalytics(other.store) })).toThrow("options.analytics");
    // A store of the program's own, which is guarded once for each that takes it.
    const own = Object.assign(Object.create(other.store) as typeof other.store, {});
    const keyring = createKeyring(own);
    expect(() => createPortal(keyring, optionsOf({ ...other, store: own }))).not.toThrow();
    expect(() => createPortal(keyring, optionsOf(other))).toThrow("of the store");
  });

  it.each(["/", "x", "/a/", "//evil", "/a?b", ""])("basePath: %j is none", (basePath) => {
    expect(() => create({ basePath })).toThrow("options.basePath");
  });

  it.each(["/keys", "/new", "/usage/x", "/statement", "/statement.csv", "/portal.css"])(
    "basePath: %j would hide pages behind a proxy that takes it away",
    (basePath) => {
      expect(() => create({ basePath })).toThrow(/options.basePath must not begin with .*such as \/account/);
    },
  );

  it.each([
    "//evil.example",
    "/\\evil.example",
    "http://evil.example",
    "javascript:alert(1)",
    "https://",
    "",
    "sign-in",
    "/a b",
    "/\t/evil",
    "/'",
  ])("signIn, home and logo: %j is no address", (address) => {
    for (const options of [{ signIn: address }, { home: address }, { theme: { logo: address } }])
      expect(() => create(options)).toThrow(TypeError);
  });

  it("frameAncestors: origins alone, and nobody by default", async () => {
    const headers = async (more: Partial<PortalOptions>) => (await browse(shop, "ann", more).get("/")).headers;
    expect((await headers({})).get("x-frame-options")).toBe("DENY");
    expect(await policy({})).toContain("frame-ancestors 'none'");
    const frameAncestors = ["self", "https://app.example.com", "http://localhost:3000"];
    expect(await policy({ frameAncestors })).toMatch(
      /frame-ancestors 'self' https:\/\/app\.example\.com http:\/\/localhost:3000$/,
    );
    expect((await headers({ frameAncestors })).has("x-frame-options")).toBe(false);
    for (const wrong of [
      [],
      ["*"],
      ["https://*.example.com"],
      ["https://a.example; script-src *"],
      ["https://a/b"],
      "self",
      [null],
      Array(21).fill("self"),
    ])
      expect(() => create({ frameAncestors: wrong as never })).toThrow("options.frameAncestors");
  });
});

describe("portal: looks", () => {
  it("colours and fonts become variables; each scheme has its own", async () => {
    const theme = {
      font: '"Inter", -apple-system, sans-serif',
      light: { accent: "#0a7a5c", text: "rgb(1 2 3 / 90%)" },
      dark: { accent: "oklch(0.8 0.1 160)" },
    };
    const css = await style({ theme });
    expect(css).toContain(
      ":root{--accent:#0a7a5c;--text:rgb(1 2 3 / 90%)}@media (prefers-color-scheme:dark){:root{--accent:oklch(0.8 0.1 160)}}",
    );
    expect(css).toContain('.ks-body{font-family:"Inter", -apple-system, sans-serif}');
    const dark = await style({ theme: { ...theme, scheme: "dark" } });
    expect(dark).toMatch(/:root\{color-scheme:dark;--bg:#131619;[^}]*;--accent:oklch\(0\.8 0\.1 160\)\}/);
    expect(dark.slice(dark.indexOf("color-scheme:dark"))).not.toContain("#0a7a5c");
    expect((await browse(shop, "ann", { theme: { scheme: "light" } }).get("/")).text).toContain(
      'name="color-scheme" content="light"',
    );
  });

  it.each([
    "red}body{display:none",
    "red;--bg:url(//evil)",
    "url(https://evil.example/x)",
    "var(--bg)",
    "rgb(0,0,0",
    "rgb(0 0 0))",
    "rgb(var(--x))",
    "#12",
    "#1234567",
    "",
    "red/**/",
    "expression(alert(1))",
    "image-set('x')",
    "\\75rl(x)",
    "red\n",
    "rgb(0 0 0);",
    "</style>",
    5,
    null,
    ["red"],
  ])("no colour leaves its declaration or loads anything: %j", (color) => {
    for (const part of ["light", "dark"])
      expect(() => create({ theme: { [part]: { accent: color } } })).toThrow(`options.theme.${part}.accent`);
  });

  it.each(["a;b", '"a', "a}", "url(x)", '"a\\"', "a,,b", "", "'a'", '"a";', "a\n"])(
    "no font does either: %j",
    (font) => {
      expect(() => create({ theme: { font } })).toThrow("options.theme.font");
    },
  );

  it("the logo is the one thing from elsewhere", async () => {
    const theme = { logo: "https://cdn.example.com/logo.svg?x=1", name: "Acme <b>" };
    expect(await policy({ theme })).toContain("img-src 'self' https://cdn.example.com; form-action");
    const { text } = await browse(shop, "ann", { theme, home: "/app" }).get("/");
    expect(text).toContain(
      '<a class="ks-brand" href="/app"><img src="https://cdn.example.com/logo.svg?x=1" alt="">Acme &lt;b&gt;</a>',
    );
    expect(text).toContain("<title>API keys · Acme &lt;b&gt;</title>");
    expect(await policy({ theme: { logo: "/logo.svg" } })).toContain("img-src 'self'; form-action");
  });

  it("names of options, colours and texts that there are not are mistakes", () => {
    for (const options of [
      { theme: { colour: "red" } },
      { theme: { light: { accentColor: "red" } } },
      { texts: { key: 5 } },
      { texts: { kee: "x" } },
      { texts: { key: "" } },
      { texts: { key: "x".repeat(1_001) } },
      { theme: { scheme: "auto" } },
      { theme: { name: "x".repeat(101) } },
      { theme: "dark" },
    ])
      expect(() => create(options as never)).toThrow(/options\.(?:theme|texts)/);
  });
});

describe("portal: texts", () => {
  it("every text of the table is shown somewhere", () => {
    const source = filesBelow("src/portal").join("\n");
    // Said by their own names.
    const states: readonly string[] = [...KEY_STATES, "plan", "grant"];
    for (const name of Object.keys(ENGLISH).filter((one) => !states.includes(one)))
      expect([name, source.includes(`"${name}"`)]).toEqual([name, true]);
  });

  it("another language: its texts, numbers and dates, and none of the English ones", async () => {
    const texts = Object.fromEntries(
      Object.entries(ENGLISH).map(([name, text]) => [name, `«${text.replace(/[a-z]+(?![^{]*\})/gi, "ö")}»`]),
    );
    const german = browse(shop, "ann", { lang: "de", texts });
    const id = shop.keys["ann"]?.[0]?.keyId ?? "";
    for (const path of [
      "/",
      "/new",
      "/usage",
      "/statement",
      `/keys/${id}`,
      `/keys/${id}/rotate`,
      `/keys/${id}/revoke`,
      "/nothing",
    ]) {
      const { text } = await german.get(path);
      expect(text).toContain('<html lang="de">');
      const shown = text.replace(/<(?:code|bdi|time)[^>]*>.*?<\/(?:code|bdi|time)>|<[^>]+>/g, " ");
      for (const english of Object.values(ENGLISH))
        if (/^[A-Z][a-z]{3}/.test(english)) expect([path, shown.includes(english)]).toEqual([path, false]);
    }
    const failed = await german.submit("/new", { name: "x".repeat(300) });
    expect(failed.text).not.toMatch(/Nothing|fields|Tick|must/);
    expect((await german.get("/")).text).toContain("1.047");
    expect((await german.get("/statement")).text).toContain("November 2026");
  });

  it("texts are text: no HTML of theirs is HTML, and joiners and parts that nobody knows stay as they are", async () => {
    const evil = `"><script>1</script>'&{constructor}{x}`;
    const texts = Object.fromEntries(Object.keys(ENGLISH).map((name) => [name, evil])) as Record<TextName, string>;
    const browser = browse(shop, "ann", { texts, home: "/" });
    const id = shop.keys["ann"]?.[0]?.keyId ?? "";
    for (const path of [
      "/",
      "/new",
      "/usage",
      "/statement",
      `/keys/${id}`,
      `/keys/${id}/rotate`,
      `/keys/${id}/revoke`,
      "/nothing",
    ]) {
      const { text } = await browser.get(path);
      expect(text.match(/<script>/g)).toBeNull();
      expect(text).toContain("&quot;&gt;&lt;script&gt;1&lt;/script&gt;&#39;&amp;{constructor}{x}");
    }
    const persian = await browse(shop, "ann", { lang: "fa", texts: { newKey: "کلید\u200cتازه" } }).get("/");
    expect(persian.text).toContain("کلید\u200cتازه");
    expect(persian.text).not.toContain("␣");
  });

  it.each(["", "x", "e n", '"en', "en-", "deutsch-", 5, "en<"])("lang: %j is no language", (lang) => {
    expect(() => create({ lang: lang as never })).toThrow("options.lang");
  });

  it.each(["en", "de", "pt-BR", "ar", "he", "fa", "ja", "zh-Hant-TW", "hi"])(
    "lang: %s shows numbers and dates without marks",
    async (lang) => {
      for (const path of ["/", "/usage", "/statement"])
        expect((await browse(shop, "ann", { lang }).get(path)).text).not.toContain("␣");
    },
  );
});
