/** Programs in workerd, the runtime of Workers, with Durable Objects that have SQLite. */
import { build } from "esbuild";
import { Miniflare } from "miniflare";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { ROOT } from "../structure/source.js";

export const COMPATIBILITY_DATE = "2026-04-01";

/**
 * Bundles a program as wrangler does, without `nodejs_compat`: what needs a Node module does not bundle.
 * @param file below the repository
 */
export async function bundleWorker(file: string, minify = false): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(ROOT, file)],
    bundle: true,
    write: false,
    minify,
    format: "esm",
    target: "es2022",
    conditions: ["workerd", "worker", "browser"],
    mainFields: ["browser", "module", "main"],
    external: ["cloudflare:workers"],
    tsconfig: join(ROOT, "examples", "tsconfig.json"),
    logLevel: "error",
  });
  return outputFiles[0]!.text;
}

export const gzipped = (text: string): number => gzipSync(text).length;

/** A running program. */
export interface Running {
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** The answer as JSON. */
  ask<T>(path: string, body?: unknown): Promise<T>;
  stop(): Promise<void>;
}

/**
 * The runtime of a program whose class of objects is bound as `KEYS`.
 * @param className the exported class
 */
export function runtimeOf(script: string, className: string, bindings: Record<string, string> = {}): Miniflare {
  return new Miniflare({
    modules: [{ type: "ESModule", path: "worker.mjs", contents: script }],
    compatibilityDate: COMPATIBILITY_DATE,
    durableObjects: { KEYS: { className, useSQLite: true } },
    bindings,
  });
}

/** Starts a program. @see runtimeOf */
export async function startWorker(...given: Parameters<typeof runtimeOf>): Promise<Running> {
  const runtime = runtimeOf(...given);
  await runtime.ready;
  // Not by the `fetch` of Node, whose connections workerd may have closed while a suite ran.
  const call = async (path: string, init?: RequestInit) =>
    (await runtime.dispatchFetch(`http://localhost${path}`, init as never)) as unknown as Response;
  return {
    fetch: call,
    async ask<T>(path: string, body?: unknown) {
      const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
      const response = await call(path, init);
      const text = await response.text();
      if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
      return JSON.parse(text) as T;
    },
    stop: () => runtime.dispose(),
  };
}
