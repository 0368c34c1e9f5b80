/**
 * Spends in a Durable Object that is aborted, or whose storage fails, at random moments: between two acknowledgements,
 * and in the middle of a write. Each spend is repeated under its idempotency key until it is acknowledged.
 */
import { DurableObject } from "cloudflare:workers";
import { type AlarmStorage, createEngine, type Engine } from "../../../src/edge/engine.js";
import { remoteKeyring, remoteVerifier } from "../../../src/edge/index.js";

/** What is tried: the storage as it is, or one that must be found out. */
export type Mode = "sound" | "without transactions";

interface State {
  readonly storage: AlarmStorage;
  abort(reason: string): void;
}

/** Of the isolate, which outlives its objects. */
const faults = { mode: "sound" as Mode, share: 0, aborts: 0, throws: 0 };

/** A storage in which some statements abort the object, and others fail. */
function faulty(state: State): AlarmStorage {
  const { storage } = state;
  const fail = (): void => {
    if (Math.random() >= faults.share) return;
    if (Math.random() < 0.5) {
      faults.aborts++;
      state.abort("killed by the test");
    }
    faults.throws++;
    throw new Error("disk I/O error: SQLITE_IOERR");
  };
  return {
    getAlarm: () => storage.getAlarm(),
    setAlarm: (time) => storage.setAlarm(time),
    transactionSync: (work) => (faults.mode === "without transactions" ? work() : storage.transactionSync(work)),
    sql: {
      exec(query, ...values) {
        const cursor = storage.sql.exec(query, ...values);
        fail();
        return cursor;
      },
    },
  };
}

export class Rig extends DurableObject {
  readonly #engine: Engine;

  constructor(state: State, env: unknown) {
    super(state, env);
    this.#engine = createEngine(faulty(state), {}, env);
  }

  call(operation: string, ...given: unknown[]): Promise<string> {
    return this.#engine.call(operation, given);
  }
}

interface Env {
  readonly KEYS: { getByName(name: string): Rig };
}

const CREDITS = 1_000_000;
const AT_ONCE = 8;

/** What became of the spends. */
export interface Outcome {
  readonly aborts: number;
  readonly throws: number;
  /** Calls that failed, and were repeated. */
  readonly failed: number;
  /** Credits that were taken, and those of acknowledged spends. */
  readonly taken: number;
  readonly acknowledged: number;
}

// oxlint-disable-next-line no-restricted-exports -- what a Worker is
export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { mode, spends, share } = (await request.json()) as { mode: Mode; spends: number; share: number };
    Object.assign(faults, { mode, share: 0, aborts: 0, throws: 0 });
    const name = crypto.randomUUID();
    const keyring = remoteKeyring(() => env.KEYS.getByName(name));
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: CREDITS } });
    // A stub of an object that was aborted is broken.
    const verifier = remoteVerifier(() => env.KEYS.getByName(name));
    let [next, failed] = [0, 0];
    const spend = async (id: number): Promise<void> => {
      for (;;) {
        try {
          const { code } = await verifier.verify({ key, credits: { cost: 1 } }, { idempotencyKey: `spend ${id}` });
          if (code !== "VALID") throw new Error(code);
          return;
        } catch {
          failed++;
        }
      }
    };
    faults.share = share;
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        while (next < spends) await spend(next++);
      }),
    );
    faults.share = 0;
    const { credits } = await remoteKeyring(() => env.KEYS.getByName(name)).getKey({ keyId });
    const { aborts, throws } = faults;
    const outcome: Outcome = { aborts, throws, failed, taken: CREDITS - credits!.remaining!, acknowledged: spends };
    return Response.json(outcome);
  },
};
