/** What the package says of itself: its texts cite only what it ships, and its repository is named in one place. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "./structure/source.js";

const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const manifest = JSON.parse(read("package.json")) as {
  readonly files: readonly string[];
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly repository: { readonly type: string; readonly url: string };
  readonly homepage: string;
  readonly bugs: string;
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

  it("repository, homepage and bugs name one place, which no other file names", () => {
    const { repository, homepage, bugs } = manifest;
    const place = /^git\+(https:\/\/github\.com\/[^/]+\/keystile)\.git$/.exec(repository.url)?.[1];
    expect([repository.type, homepage, bugs]).toEqual(["git", `${place}#readme`, `${place}/issues`]);
    for (const text of TEXTS) expect(read(text)).not.toContain(place);
  });
});
