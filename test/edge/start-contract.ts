/** Starts the program of the project `workerd` once, for all of its files. */
import type { TestProject } from "vitest/node";
import { bundleWorker, runtimeOf } from "./worker.js";

declare module "vitest" {
  interface ProvidedContext {
    /** Where the program listens. */
    readonly workerd: string;
  }
}

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const runtime = runtimeOf(await bundleWorker("test/edge/programs/contract.ts"), "Objects");
  const { origin } = await runtime.ready;
  project.provide("workerd", origin);
  return () => runtime.dispose();
}
