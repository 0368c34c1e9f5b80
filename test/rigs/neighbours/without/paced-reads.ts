/** In place of pacing: every connection is read of at once. */
import type { Lane, PacedReads } from "../../../../src/http/node/paced-reads.js";

export const newLane = (): Lane => ({ each: undefined });

export const createPacedReads = (): PacedReads => ({
  wait: (paced) => paced.read(),
  done: () => undefined,
  hurry: () => undefined,
});
