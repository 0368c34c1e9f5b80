/** Exhaustive exploration: every order of the steps of a few operations, up to a depth, each on a world of its own. */
import type { Operation, World } from "./world.js";
import { Violation } from "./violation.js";

export interface Scene {
  /** The world as it is before the operations that are to overlap, one for each of its first slots. */
  readonly set: () => Promise<{ readonly world: World; readonly operations: readonly Operation[] }>;
  readonly end: () => unknown;
}

export interface Explored {
  readonly schedules: number;
  readonly steps: number;
  /** The choices of the first order that failed. */
  readonly failed: { readonly choices: readonly number[]; readonly violation: Violation } | undefined;
}

/**
 * Depth first, by playing again: each schedule repeats the choices of the one before up to the last that has an
 * alternative.
 * @param depth choices beyond it are not varied: the first call that waits goes on
 */
export async function explore(scene: Scene, depth = Infinity): Promise<Explored> {
  let schedules = 0;
  let steps = 0;
  let prefix: number[] | undefined = [];
  while (prefix !== undefined) {
    const taken: { choice: number; of: number }[] = [];
    const { world, operations } = await scene.set();
    try {
      for (const [slot, operation] of operations.entries()) await world.begin(world.slots[slot]!, operation);
      for (let calls = world.calls(); calls.length > 0; calls = world.calls()) {
        const choice = prefix[taken.length] ?? 0;
        if (taken.length < depth) taken.push({ choice, of: calls.length });
        await world.advance(calls[choice]!);
      }
      await world.finish();
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      const choices = taken.map(({ choice }) => choice);
      return { schedules: schedules + 1, steps: steps + world.step, failed: { choices, violation: error } };
    } finally {
      await scene.end();
    }
    schedules++;
    steps += world.step;
    while (taken.length > 0 && taken.at(-1)!.choice + 1 === taken.at(-1)!.of) taken.pop();
    const last = taken.pop();
    prefix = last && [...taken.map(({ choice }) => choice), last.choice + 1];
  }
  return { schedules, steps, failed: undefined };
}
