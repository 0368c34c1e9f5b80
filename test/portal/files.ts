import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../structure/source.js";

/** The texts of the sources below a folder. */
export function filesBelow(folder: string): string[] {
  const files = readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true });
  return files.filter((file) => file.isFile()).map((file) => readFileSync(join(file.parentPath, file.name), "utf8"));
}
