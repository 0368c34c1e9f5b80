/**
 * Counts are bounded in bytes, with all that waits for the store and for its writer thread: a process whose heap is a
 * third of the tags that it is sent goes on.
 */
import { expect, it } from "vitest";
import { buildWorker, buildWriter, nextMessage, startWorker } from "../rigs/workers.js";
import type { CountLongOrders } from "../rigs/workers/count-long.js";
import { temporaryPaths } from "../stores/sqlite/support.js";

const newPath = temporaryPaths();
const MIB = 2 ** 20;
/** Of 10 KB of tags each. */
const CALLS = 26_041;

it.each([
  ["without a writer thread", false, 1],
  ["with a writer thread", true, 1],
  ["with a writer thread and four verifiers, which share the bound", true, 4],
])(
  "counts of two workspaces whose tags are long stay within their memory %s",
  { timeout: 180_000 },
  async (_, isThread, verifiers) => {
    const writer = isThread ? (await buildWriter()).href : undefined;
    const orders: CountLongOrders = {
      ...{ database: newPath(), verifiers, memory: 48 * MIB, calls: CALLS },
      ...(writer !== undefined && { writer }),
    };
    const child = startWorker(await buildWorker("count-long"), orders, {}, ["--max-old-space-size=96"]);
    const { heap, counted, others } = await nextMessage(child);
    console.log({ isThread, verifiers, heap: Math.round(Number(heap) / MIB), others });
    expect(counted).toBe(CALLS);
    expect(heap).toBeLessThan(96 * MIB);
    child.kill();
  },
);
