/** Whether the service can be relied on: the health of its store, looked at no more than once a second. */
import { KeystileError } from "../contracts/errors.js";
import type { StoreHealth } from "../contracts/health.js";
import type { Store } from "../contracts/store.js";
import { tellsHealth } from "../verify/metrics-text.js";

/** Milliseconds for which a finding is used again: whoever asks often, without a root key, makes no work. */
const MAX_AGE_MS = 1_000;

/**
 * @param store keystile's own, or guarded; one without `health` is ready if it can be read
 * @param onProblem called with each finding that it is not ready, so at most once a second
 */
export function createReadiness(store: Store, onProblem: (error: KeystileError) => void) {
  let foundAt = NaN;
  let finding: ReturnType<typeof look> | undefined;

  const look = async () => {
    let health: StoreHealth | undefined;
    try {
      if (tellsHealth(store)) health = await store.health();
      else {
        await store.pollChanges();
        await store.readMany("workspaces", ["ready"]);
      }
    } catch (cause) {
      onProblem(new KeystileError("NOT_READY", "the store failed", { cause }));
      return { health: undefined, isReady: false };
    }
    if (health?.ok === false) onProblem(new KeystileError("NOT_READY", health.problems.join("; ")));
    return { health, isReady: health?.ok !== false };
  };
  const current = () => {
    const now = performance.now();
    if (finding !== undefined && now - foundAt < MAX_AGE_MS) return finding;
    foundAt = now;
    return (finding = look());
  };
  return {
    /** @throws (rejects) KeystileError NOT_READY, which does not tell the client why */
    async assertReady(): Promise<void> {
      if (!(await current()).isReady) throw new KeystileError("NOT_READY", "the store cannot be relied on");
    },
    /** The health of a store that tells it, as {@link StoreHealth}; `undefined`: it does not, or could not be asked. */
    health: async (): Promise<StoreHealth | undefined> => (await current()).health,
  };
}

/** Readiness of a store. */
export type Readiness = ReturnType<typeof createReadiness>;
