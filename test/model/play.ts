/** Plays a history of steps on the engine and on the model, and tells the story of the first difference. */
import { dice } from "./dice.js";
import { changeGrants, updateCredits } from "./grant-steps.js";
import { createKey, deleteKey, rerollKey, updateKey } from "./key-steps.js";
import { listKeys, readKey } from "./read-steps.js";
import { createMigration, migrateBadly, migrateKeys } from "./migrate-steps.js";
import {
  changeApi,
  changeIdentity,
  changePermission,
  changeRole,
  changeWorkspace,
  createApi,
} from "./reference-steps.js";
import { type Bed, closeHand, type Hand, newWorld, openHand, show, type Stage } from "./stage.js";
import { rollTime } from "./vocabulary.js";
import { burst, misuse, verify } from "./verify-steps.js";

type Step = (stage: Stage) => Promise<void>;

/** How often each step comes, in a thousand. */
const STEPS: readonly (readonly [number, Step])[] = [
  [560, verify],
  [20, burst],
  [15, misuse],
  [110, moveClock],
  [45, createKey],
  [55, updateKey],
  [30, deleteKey],
  [15, rerollKey],
  [30, updateCredits],
  [25, changeGrants],
  [20, readKey],
  [5, listKeys],
  [10, changeApi],
  [6, changeWorkspace],
  [10, changePermission],
  [16, changeRole],
  [16, changeIdentity],
  [12, createMigration],
  [24, migrateKeys],
  [4, migrateBadly],
  [2, (stage) => stage.restart()],
];
const TOTAL = STEPS.reduce((sum, [weight]) => sum + weight, 0);
/** Beyond it a key is removed when another is made: histories stay crowded, and fast. */
const MAX_KEYS = 14;
const START_KEYS = 5;
/** Steps that the story of a failure tells. */
const STORY = Number(process.env["TEST_STORY"] ?? 40);

/** @returns how often each outcome came; @throws Error with the story of the last steps */
export async function play(
  seeds: readonly number[],
  bed: Bed,
  counts = new Map<string, number>(),
): Promise<Map<string, number>> {
  const world = newWorld();
  const story: (readonly [string, unknown[]])[] = [];
  let hands: Hand[] = [];
  const open = async (): Promise<void> => {
    hands = [await openHand(bed, world), await openHand(bed, world)];
  };
  await open();
  const stage: Omit<Stage, "dice"> = {
    world,
    hand: hands[0]!,
    counts,
    note: (what, ...details) => void story.push([what, details]),
    async restart() {
      if (bed.restart === undefined) return;
      const how = (this as Stage).dice.chance(0.5) ? "stop" : "crash";
      stage.note("restart", how);
      if (how === "stop") for (const hand of hands) await closeHand(hand);
      await bed.restart(how);
      await open();
      stage.hand = hands[0]!;
    },
  };
  try {
    for (const workspace of world.workspaces) await createApi({ ...stage, dice: dice(0) }, workspace);
    for (let i = 0; i < START_KEYS; i++) await createKey(Object.assign(stage, { dice: dice(i) }));
    for (const seed of seeds) {
      const rolled = dice(seed);
      const hand = hands[rolled.below(2)]!;
      // Another process sees a change from its next turn of the event loop on.
      if (hand !== stage.hand && bed.handles === "two") await new Promise((resolve) => setImmediate(resolve));
      stage.hand = hand;
      await choose(rolled.below(TOTAL))(Object.assign(stage, { dice: rolled }));
      if (world.keys.length > MAX_KEYS) await deleteKey(Object.assign(stage, { dice: rolled }));
    }
  } catch (error) {
    const steps = story.slice(-STORY).map(([what, details]) => `  ${what} ${details.map(show).join(" ")}`);
    throw new Error(
      `${error instanceof Error ? error.message : String(error)}\nafter ${story.length} steps, the last of them:\n${steps.join("\n")}`,
      { cause: error },
    );
  } finally {
    for (const hand of hands) await closeHand(hand);
    await bed.close();
  }
  return counts;
}

function choose(roll: number): Step {
  let rest = roll;
  for (const [weight, step] of STEPS) {
    if (rest < weight) return step;
    rest -= weight;
  }
  return verify;
}

async function moveClock({ world, dice, note }: Stage): Promise<void> {
  const next = rollTime(dice, world.now);
  // Beyond the last time that a key may expire there is nothing to see.
  world.now = next > 4e12 ? 1.7e12 : next;
  note("clock", new Date(world.now).toISOString());
}
