/**
 * The rig of slow fills: finds that take their time beside changes, and memory that must never bring an old record
 * back. Port clause 9, A115.
 */
import type { Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { dice } from "../model/dice.js";

const KEYS = 4;
const READERS = 6;
const ROUNDS = 60;

/**
 * @param between what stands between the verifier and the slow store: a planted fault, or nothing
 * @returns answers that contradict a change which was over before the call began: must be 0
 */
export async function rehearseFills(
  seed: number,
  between: (store: Store) => Store = (store) => store,
): Promise<{ stale: number; judged: number }> {
  const rolled = dice(seed);
  const turns = async (): Promise<void> => {
    for (let turn = rolled.below(4); turn > 0; turn--) await new Promise((resolve) => setImmediate(resolve));
  };
  const real = memoryStore();
  const keyring = createKeyring(real);
  const { apiId } = await keyring.createApi({ name: "fills" });
  // Whether each may pass; unknown while it is being changed. The version tells whether a change came in between.
  const keys = await Promise.all(
    Array.from({ length: KEYS }, async () => ({
      ...(await keyring.createKey({ apiId })),
      passes: true as boolean | undefined,
      version: 0,
    })),
  );
  const verifier = createVerifier(between(slowly(real, turns)), { cache: { size: 3 } });
  const totals = { stale: 0, judged: 0 };

  const read = async (): Promise<void> => {
    for (let round = 0; round < ROUNDS; round++) {
      const key = rolled.pick(keys);
      const { passes, version } = key;
      const { valid } = await verifier.verify({ key: key.key });
      if (passes !== undefined && version === key.version) {
        totals.judged++;
        if (valid !== passes) totals.stale++;
      }
      await turns();
    }
  };
  const change = async (): Promise<void> => {
    for (let round = 0; round < ROUNDS; round++) {
      const key = rolled.pick(keys);
      const enabled = rolled.chance(0.5);
      key.version++;
      key.passes = undefined;
      await keyring.updateKey({ keyId: key.keyId, enabled });
      key.version++;
      key.passes = enabled;
      await turns();
    }
  };
  await Promise.all([change(), ...Array.from({ length: READERS }, read)]);
  await verifier.close();
  return totals;
}

/** Reads at once and answers later, as a store behind a network may. */
function slowly(store: Store, turns: () => Promise<void>): Store {
  return {
    ...store,
    async findKey(digest) {
      const found = await store.findKey(digest);
      await turns();
      return found;
    },
  };
}
