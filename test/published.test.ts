/** What the package says of itself: its texts cite only what it ships, and its repository is named in one place. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { SCHEMA_VERSION as POSTGRES_VERSION } from "../src/stores/postgres/schema.js";
import { SCHEMA_VERSION as SQLITE_VERSION } from "../src/stores/sqlite/connection/schema.js";
import { ROOT } from "./structure/source.js";

const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const manifest = JSON.parse(read("package.json")) as {
  readonly files: readonly string[];
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly repository: { readonly type: string; readonly url: string };
};
const TEXTS = [
  "README.md",
  "SECURITY.md",
  "CHANGELOG.md",
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(md|txt)$/.test(name))
    .map((name) => `docs/${name}`),
];

/** `bench/*.svg` as a pattern; a folder stands for all that is in it. */
const ships = (path: string): boolean =>
  manifest.files.some((entry) =>
    entry.includes("*")
      ? new RegExp(`^${entry.replaceAll(".", "\\.").replaceAll("*", "[^/]*")}$`).test(path)
      : path === entry || path.startsWith(`${entry}/`),
  );

describe("the published package", () => {
  it.each(TEXTS)("%s links to nothing that is not shipped", (text) => {
    const links = [...read(text).matchAll(/\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"/g)].map(
      ([, one, other]) => one ?? other!,
    );
    for (const link of links) {
      if (/^(https?:|#|mailto:)/.test(link)) continue;
      const path = relative(ROOT, join(ROOT, dirname(text), link.replace(/#.*$/, "")));
      expect([link, ships(path) && existsSync(join(ROOT, path))]).toEqual([link, true]);
    }
  });

  it("brings along what verification and the service need, and no more", () => {
    expect(Object.keys(manifest.dependencies)).toEqual(["commander", "jose", "lru-cache", "valibot"]);
    expect(Object.keys(manifest.optionalDependencies)).toEqual(["better-sqlite3"]);
  });

  it("the repository is named in one place, from which npm derives the others", () => {
    const { repository } = manifest;
    const place = /^git\+(https:\/\/github\.com\/[^/]+\/keystile)\.git$/.exec(repository.url)?.[1];
    expect([repository.type, place]).toEqual(["git", expect.any(String)]);
    expect(manifest).not.toHaveProperty("homepage");
    expect(manifest).not.toHaveProperty("bugs");
    for (const text of TEXTS) expect(read(text)).not.toContain(place);
  });

  it("the changelog and docs/stability.md have the numbers of the tables", () => {
    const { version } = JSON.parse(read("package.json")) as { readonly version: string };
    const numbers = [SQLITE_VERSION, POSTGRES_VERSION];
    expect(read("docs/stability.md").replace(/ +/g, " ")).toContain(`| ${[version, ...numbers].join(" | ")} |`);
    expect(read("CHANGELOG.md")).toContain(
      `tables of a SQLite file have version ${numbers[0]}, those in PostgreSQL version ${numbers[1]}`,
    );
  });

  it("the pictures of the README are those of this repository, small, and not in the package", () => {
    const place = /github\.com\/([^/]+\/keystile)\.git$/.exec(manifest.repository.url)?.[1];
    const shown = [...read("README.md").matchAll(/(?:src|srcset)="([^"]+)"/g)].map(([, address]) => address);
    const pictures = ["console-dark", "console-light", "portal-dark", "portal-light"].map((name) => `docs/${name}.png`);
    expect(shown).toEqual(pictures.map((path) => `https://raw.githubusercontent.com/${place}/HEAD/${path}`));
    for (const path of pictures) expect([path, statSync(join(ROOT, path)).size < 170_000]).toEqual([path, true]);
    expect(manifest.files).toContain("!docs/*.png");
  });

  it("actions are pinned by digest", () => {
    for (const name of readdirSync(join(ROOT, ".github/workflows"))) {
      const used = [...read(`.github/workflows/${name}`).matchAll(/uses: *(.*)/g)].map(([, action]) => action);
      expect(used.length).toBeGreaterThan(0);
      for (const action of used) expect(action).toMatch(/@[0-9a-f]{40} # v\d/);
    }
  });
});
