/**
 * Builds the package before its tests, unless dist was made of the sources as they are; packs and installs it, once.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    /** A folder with the tarball, and with what an installation of it without optional packages made. */
    readonly installed: { readonly folder: string; readonly tarball: string };
  }
}

export function setup(project: TestProject): () => void {
  if (!isBuilt()) execFileSync("npm", ["run", "build"], { stdio: ["ignore", "ignore", "inherit"] });
  const folder = mkdtempSync(join(tmpdir(), "keystile-packed-"));
  const npm = (...args: string[]): string =>
    execFileSync("npm", args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  const [packed] = JSON.parse(npm("pack", "--ignore-scripts", "--json", "--pack-destination", folder)) as [
    { readonly filename: string },
  ];
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "stranger", private: true }));
  const quiet = ["--omit=optional", "--prefer-offline", "--no-audit", "--no-fund"];
  npm("install", "--prefix", folder, ...quiet, join(folder, packed.filename));
  project.provide("installed", { folder, tarball: packed.filename });
  return () => rmSync(folder, { recursive: true, force: true });
}

function isBuilt(): boolean {
  const changed = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const below = (folder: string) => readdirSync(folder, { recursive: true, encoding: "utf8" });
  const sources = ["src", "grammar"].flatMap((folder) => below(folder).map((file) => join(folder, file)));
  // Declarations are written last.
  const built = Math.min(changed("dist/index.d.ts"), changed("dist/index.d.cts"));
  return [...sources, "package.json", "tsup.config.ts", "tsup.finish.ts"].every((file) => changed(file) < built);
}
