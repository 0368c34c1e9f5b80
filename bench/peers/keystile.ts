/** keystile as a contestant: its public verbs on each store. */
import {
  createKeyring,
  createVerifier,
  memoryStore,
  type Store,
  type V2KeysVerifyKeyResponseData,
  type VerifierOptions,
} from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { connect } from "../connect.js";
import { QUERY } from "../keys.js";
import { scratch } from "../stores.js";
import { LARGE_LEASES } from "../work.js";
import { type Checks, type Contestant, type Gate, grantsOf, lettersOf, type Terms } from "./contestant.js";

const IN_PROCESS = "at once";
const ON_HOST = "at once; in other processes from the next turn on";
const ON_HOSTS = "at once; on other nodes when notified, within 2 s at worst";

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

/** @param another opens the same store once more */
async function open(
  store: Store,
  options: VerifierOptions,
  keys: number,
  terms: Terms,
  another?: () => Store,
): Promise<OwnGate> {
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
  const gateOf = (joined: Store): OwnGate => {
    const verifier = createVerifier(joined, options);
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
        await joined.close();
      },
      ...(another !== undefined && { join: async () => gateOf(another()) }),
    };
  };
  return gateOf(store);
}

const EXACT = { mode: "exact" } as const;
let files = 0;
const nextFile = (): string => scratch(`peers-keystile-${++files}.db`);

/** Keys and credits in memory. */
export const keystileMemory: Contestant<Answer> = {
  name: "keystile, memory store",
  checks: checks("exact, in memory", IN_PROCESS),
  open: (keys, terms) => open(memoryStore(), { credits: EXACT }, keys, terms),
};

/** A file, and credits spent from leases. */
export const keystileLeased: Contestant<Answer> = {
  name: "keystile, SQLite, credits from leases that last",
  checks: checks("never over-spent; a crash forfeits what is in hand", ON_HOST),
  async open(keys, terms) {
    const gate = await open(sqliteStore(nextFile()), { credits: LARGE_LEASES }, keys, {
      ...terms,
      credits: terms.credits + 1,
    });
    // Draws each lease beforehand, by a call that takes a credit and no token.
    for (let n = 0; n < keys; n++) await gate.draw(n);
    return gate;
  },
};

/** A file, and each credit durable before the answer. */
export const keystileProcess: Contestant<Answer> = {
  name: "keystile, SQLite, process-durable",
  checks: checks("exact, across processes; survives a kill", ON_HOST),
  open: (keys, terms) => open(sqliteStore(nextFile(), { durability: "process" }), { credits: EXACT }, keys, terms),
};

/** The default. */
export const keystilePower: Contestant<Answer> = {
  name: "keystile, SQLite, power-durable (default)",
  checks: checks("exact, across processes; survives a power cut", ON_HOST),
  open: (keys, terms) => open(sqliteStore(nextFile()), { credits: EXACT }, keys, terms),
};

/** A program with connections of its own. */
function openNode(url: string): Store & { setUp(): Promise<void> } {
  const { store, close } = connect(url);
  return { ...store, close };
}

const ACROSS_HOSTS = "exact, across hosts; survives a power cut";

/** What is read and written in PostgreSQL. */
const onPostgres = (
  newDatabase: () => Promise<string>,
  name: string,
  credits: string,
  options: VerifierOptions,
): Contestant<Answer> => ({
  name: `keystile, PostgreSQL, ${name}`,
  checks: checks(credits, ON_HOSTS),
  async open(keys, terms) {
    const url = await newDatabase();
    const store = openNode(url);
    await store.setUp();
    if (options.credits?.mode !== "leased") return open(store, options, keys, terms, () => openNode(url));
    const gate = await open(store, options, keys, { ...terms, credits: terms.credits + 1 }, () => openNode(url));
    for (let n = 0; n < keys; n++) await gate.draw(n);
    return gate;
  },
});

/**
 * The default; the same without a cache; from leases of the default size, drawn beforehand. @param newDatabase makes an
 * empty one, and tells its address
 */
export const keystilePostgres = (newDatabase: () => Promise<string>): Contestant<Answer>[] => [
  onPostgres(newDatabase, "exact (default)", ACROSS_HOSTS, { credits: EXACT }),
  onPostgres(newDatabase, "exact, not cached", ACROSS_HOSTS, { credits: EXACT, cache: { size: 1 } }),
  onPostgres(newDatabase, "leased", "never over-spent; a crash forfeits what is in hand", {
    credits: { mode: "leased", firstStep: 250, ttl: 600_000 },
  }),
];
