/**
 * Counts are bounded in bytes, with all that waits for the store and for its writer thread: a process goes on whose
 * heap has less space than the tags that it is sent, and of those no more is alive than two thirds of the memory for
 * counts.
 */
import { expect, it } from "vitest";
import { buildWorker, buildWriter, nextMessage, startWorker } from "../rigs/workers.js";
import type { CountLongOrders } from "../rigs/workers/count-long.js";
import { temporaryPaths } from "../stores/sqlite/support.js";

const newPath = temporaryPaths();
const MIB = 2 ** 20;
/** Of 10 KB of tags each, kept in two orders: 240 MB. */
const CALLS = 12_000;
const MEMORY = 48 * MIB;

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
      ...{ database: newPath(), verifiers, memory: MEMORY, calls: CALLS },
      ...(writer !== undefined && { writer }),
    };
    const child = startWorker(await buildWorker("count-long"), orders, {}, ["--max-old-space-size=160", "--expose-gc"]);
    const { heap, counted } = await nextMessage(child);
    expect(counted).toBe(CALLS);
    // The program itself takes some 7 MiB; measured are 39.
    expect(heap).toBeLessThan(MEMORY);
    child.kill();
  },
);
