/** The program of the writer thread as it stands in `src`, compiled as the package is compiled. */
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { scratch } from "./stores.js";

/** @returns its place, for `options.writer`; gone when this program ends */
export async function compileWriter(): Promise<URL> {
  const outfile = scratch("writer-thread.mjs");
  await build({
    entryPoints: [join("src", "stores", "sqlite", "writer", "worker.ts")],
    outfile,
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    target: "node20",
  });
  return pathToFileURL(resolve(outfile));
}
