/** keystile as a contestant: its public verbs on each store. */
import {
  type CreditsOptions,
  createKeyring,
  createVerifier,
  memoryStore,
  type Store,
  type V2KeysVerifyKeyResponseData,
} from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { QUERY } from "../keys.js";
import { scratch } from "../stores.js";
import { LARGE_LEASES } from "../work.js";
import { type Checks, type Contestant, type Gate, grantsOf, lettersOf, type Terms } from "./contestant.js";

const IN_PROCESS = "at once";
const ON_HOST = "at once; in other processes from the next turn on";

const checks = (credits: string, revocation: string): Checks => ({
  permissions: "query of AND, OR, parentheses, wildcards",
  limit: "exact, any number a key",
  credits,
  revocation,
});

type Answer = V2KeysVerifyKeyResponseData;
const LIMIT = "requests";

interface OwnGate extends Gate<Answer> {
  /** A call that takes a credit and no token. */
  draw(n: number): Promise<Answer>;
}

async function open(store: Store, credits: CreditsOptions, keys: number, terms: Terms): Promise<OwnGate> {
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "peers" });
  const { limit, duration } = terms;
  const made: { readonly keyId: string; readonly key: string }[] = [];
  for (let n = 0; n <= keys; n++) {
    const ratelimits = [{ name: LIMIT, limit, duration, autoApply: true }];
    made.push(
      await keyring.createKey({
        apiId,
        permissions: grantsOf(n, keys),
        credits: { remaining: terms.credits },
        ratelimits,
      }),
    );
  }
  const requests = [...made.map(({ key }) => key), lettersOf(keys + 1, 30)].map((key) => ({ key, permissions: QUERY }));
  const verifier = createVerifier(store, { credits });
  return {
    verify: (n) => verifier.verify(requests[n]!),
    draw: (n) => verifier.verify({ ...requests[n]!, ratelimits: [{ name: LIMIT, cost: 0 }] }),
    passes: ({ valid }) => valid,
    async balance(n) {
      // Leases go back first.
      await verifier.close();
      return (await keyring.getKey({ keyId: made[n]!.keyId })).credits?.remaining ?? undefined;
    },
    async close() {
      await verifier.close();
      await store.close();
    },
  };
}

const EXACT = { mode: "exact" } as const;
let files = 0;
const nextFile = (): string => scratch(`peers-keystile-${++files}.db`);

/** Keys and credits in memory. */
export const keystileMemory: Contestant<Answer> = {
  name: "keystile, memory store",
  checks: checks("exact, in memory", IN_PROCESS),
  open: (keys, terms) => open(memoryStore(), EXACT, keys, terms),
};

/** A file, and credits spent from leases. */
export const keystileLeased: Contestant<Answer> = {
  name: "keystile, SQLite, credits from leases that last",
  checks: checks("never over-spent; a crash forfeits what is in hand", ON_HOST),
  async open(keys, terms) {
    const gate = await open(sqliteStore(nextFile()), LARGE_LEASES, keys, { ...terms, credits: terms.credits + 1 });
    // Draws each lease beforehand, by a call that takes a credit and no token.
    for (let n = 0; n < keys; n++) await gate.draw(n);
    return gate;
  },
};

/** A file, and each credit durable before the answer. */
export const keystileProcess: Contestant<Answer> = {
  name: "keystile, SQLite, process-durable",
  checks: checks("exact, across processes; survives a kill", ON_HOST),
  open: (keys, terms) => open(sqliteStore(nextFile(), { durability: "process" }), EXACT, keys, terms),
};

/** The default. */
export const keystilePower: Contestant<Answer> = {
  name: "keystile, SQLite, power-durable (default)",
  checks: checks("exact, across processes; survives a power cut", ON_HOST),
  open: (keys, terms) => open(sqliteStore(nextFile()), EXACT, keys, terms),
};
