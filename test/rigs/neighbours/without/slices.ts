/** In place of long work in slices: all of it is done in one tick of the event loop. */
import type { createSlices as own } from "../../../../src/lib/slices.js";

export const createSlices = (): ReturnType<typeof own> => () => () => undefined;
