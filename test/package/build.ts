/** Builds the package before its tests, unless dist was made of the sources as they are. */
import { execFileSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

export function setup(): void {
  if (!isBuilt()) execFileSync("npm", ["run", "build"], { stdio: ["ignore", "ignore", "inherit"] });
}

function isBuilt(): boolean {
  const changed = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const below = (folder: string) => readdirSync(folder, { recursive: true, encoding: "utf8" });
  const sources = ["src", "grammar"].flatMap((folder) => below(folder).map((file) => join(folder, file)));
  // Declarations are written last.
  const built = Math.min(changed("dist/index.d.ts"), changed("dist/index.d.cts"));
  return [...sources, "package.json", "tsup.config.ts", "tsup.finish.ts"].every((file) => changed(file) < built);
}
