/** How everything here is measured: side by side, in turns, in one process. */

/** One thing to measure. */
export interface Side {
  readonly name: string;
  /** The side that this one is shown as a multiple of. */
  readonly floor?: string;
  /** What it must reach, in words. */
  readonly goal?: string;
  /** Operations a slice; default: as many as take {@link SLICE_MS}. */
  readonly operations?: number;
  /** Untimed, before each run of at most 1,024. */
  readonly ready?: (operations: number) => unknown;
  /**
   * Timed: does so many, and answers how many came out right. What it needs was made before, so that no garbage but its
   * own is in the way.
   */
  readonly run: (operations: number) => number | Promise<number>;
  /** Untimed, when all is measured: throws unless so many operations, warm-up included, left what they must. */
  readonly check?: (operations: number) => void | Promise<void>;
}

/** A line of a result: one value a round. */
export interface Row {
  readonly name: string;
  /** `ns` are nanoseconds an operation, `bytes` are bytes a key; the others are plain. */
  readonly unit: "ns" | "ms" | "bytes" | "MB" | "per second" | "calls";
  readonly values: readonly number[];
  readonly floor?: string;
  readonly goal?: string;
  /** What else is to be said, by column. */
  readonly notes?: Readonly<Record<string, string>>;
}

/** What one bench has to say. */
export interface Result {
  /** The title of its file. */
  readonly question: string;
  readonly rows: readonly Row[];
}

export interface Rounds {
  /** At least 5, so that a median means something. */
  readonly rounds?: number;
  /** Turns that each side has in a round. */
  readonly slices?: number;
  /**
   * Milliseconds that such a turn takes; longer where many calls are in flight, so that few of it are the start and the
   * end.
   */
  readonly sliceMs?: number;
}

/** A smoke run: everything happens and is checked, on sizes that say nothing about speed. */
export const QUICK = process.argv.includes("--quick");

/** A size in a real run, and in a smoke run. */
export const scaled = (real: number, quick: number): number => (QUICK ? quick : real);

const ROUNDS = scaled(7, 2);
const SLICES = scaled(8, 1);
const SLICE_MS = scaled(20, 1);
const WARM_UP_MS = scaled(400, 2);
const MOST_OPERATIONS = 1_000_000;

interface Lane {
  readonly side: Side;
  readonly operations: number;
  readonly values: number[];
  /** All so far, warm-up included. */
  done: number;
}

/**
 * Measures sides in turns, so that a noisy machine hits all of them alike: a round is made of slices, each side has one
 * after the other, and the order turns round with every slice.
 * @throws Error naming the side when an answer was wrong
 * @returns one row a side, nanoseconds an operation
 */
export async function measure(
  sides: readonly Side[],
  { rounds = ROUNDS, slices = SLICES, sliceMs = SLICE_MS }: Rounds = {},
): Promise<Row[]> {
  const lanes: Lane[] = [];
  for (const side of sides) lanes.push(await warmUp(side, sliceMs));
  for (let round = 0; round < rounds; round++) {
    const spent = new Map<Lane, number>(lanes.map((lane) => [lane, 0]));
    for (let slice = 0; slice < slices; slice++) {
      for (const lane of (round + slice) % 2 === 0 ? lanes : lanes.toReversed()) {
        spent.set(lane, (spent.get(lane) ?? 0) + (await time(lane.side, lane.operations)));
        lane.done += lane.operations;
      }
    }
    for (const [lane, ms] of spent) lane.values.push((ms * 1e6) / (lane.operations * slices));
  }
  for (const { side, done } of lanes) await side.check?.(done);
  return lanes.map(({ side, values }) => toRow(side, values));
}

function toRow({ name, floor, goal }: Side, values: readonly number[]): Row {
  return { name, unit: "ns", values, ...(floor !== undefined && { floor }), ...(goal !== undefined && { goal }) };
}

/**
 * Runs a side until the compiler has settled, and finds how many operations fill a slice. A side of fixed size starts
 * cold.
 */
async function warmUp(side: Side, sliceMs: number): Promise<Lane> {
  if (side.operations !== undefined) return { side, operations: side.operations, values: [], done: 0 };
  let operations = 16;
  let done = 0;
  const began = performance.now();
  for (;;) {
    const ms = await time(side, operations);
    done += operations;
    if (performance.now() - began >= WARM_UP_MS && ms > 0) {
      return { side, operations: Math.max(1, Math.round((operations * sliceMs) / ms)), values: [], done };
    }
    if (ms < sliceMs) operations = Math.min(operations * 2, MOST_OPERATIONS);
  }
}

/** What is made ready and then run at once: few enough that what was made ready is still in the processor's cache. */
const CHUNK = 1_024;

async function time(side: Side, operations: number): Promise<number> {
  const chunk = side.ready === undefined ? operations : CHUNK;
  let ms = 0;
  let right = 0;
  for (let done = 0; done < operations; done += chunk) {
    const count = Math.min(chunk, operations - done);
    side.ready?.(count);
    const began = performance.now();
    right += await side.run(count);
    ms += performance.now() - began;
  }
  if (right !== operations) throw new Error(`${side.name}: ${right} of ${operations} answers were right`);
  return ms;
}

/** Hands the result to whoever started this program: `bench/run.ts`, or a person. */
export function report(result: Result): void {
  if (process.send) process.send(result);
  else console.log(JSON.stringify(result, null, 2));
}

/** The middle value, the mean of the two in the middle when there are two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
}
