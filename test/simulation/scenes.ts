/** The short critical pairs, for `explore.ts`. */
import type { Change } from "../../src/contracts/store.js";
import type { KeyCreditsData } from "../../src/contracts/types.js";
import type { Keyring } from "../../src/keyring/keyring.js";
import { trust } from "../../src/lib/guards/trusted.js";
import { createVerifier, type Verifier } from "../../src/verify/verifier.js";
import type { CreditsOptions } from "../../src/verify/verifier-options.js";
import { memoryBed } from "./beds.js";
import type { Client } from "./client.js";
import type { Scene } from "./explore.js";
import { admin, importedKey, MIGRATION, presented, REFILLS, verify } from "./operations.js";
import type { PresentedKey } from "./records.js";
import { VirtualTime } from "./virtual-time.js";
import { type Plant, World } from "./world.js";

const START = Date.UTC(2024, 0, 30, 12);
const EXACT: CreditsOptions = { mode: "exact" };
const LEASED: CreditsOptions = { mode: "leased", size: 20, step: 5, ttl: 1_000 };

interface Pair {
  readonly credits: CreditsOptions;
  /** What the key begins with. */
  readonly body: { readonly credits?: object; readonly externalId?: string };
  /** What each identity begins with. */
  readonly identities?: Readonly<Record<string, { readonly credits?: KeyCreditsData }>>;
  readonly isImported?: boolean;
  /** Whether the verifier remembers the key already. */
  readonly isWarm?: boolean;
  readonly cost: number;
  /** What the administrator does meanwhile. */
  readonly change: (keyring: Keyring, keyId: string) => Promise<unknown>;
}

/** Credits of an identity. */
const SHARED = { credits: { remaining: 10, refill: REFILLS[1] } };
const REFILLED = { credits: { remaining: 10, refill: REFILLS[1] } };

export const PAIRS = {
  "spend × calendar change": {
    credits: EXACT,
    body: REFILLED,
    isWarm: true,
    cost: 4,
    change: (keyring, keyId) => keyring.updateKey({ keyId, credits: { refill: REFILLS[3] } }),
  },
  "spend × reroll": {
    credits: EXACT,
    body: REFILLED,
    cost: 4,
    change: (keyring, keyId) => keyring.rerollKey({ keyId, expiration: 1_000 }),
  },
  "draw × set": {
    credits: { ...LEASED, firstStep: 5 },
    body: REFILLED,
    isWarm: true,
    cost: 4,
    change: (keyring, keyId) => keyring.updateCredits({ keyId, operation: "set", value: 3 }),
  },
  "spend × credits given to the identity": {
    credits: EXACT,
    body: { externalId: "ada" },
    isWarm: true,
    cost: 4,
    change: (keyring) => keyring.updateIdentityCredits({ identity: "ada", operation: "set", value: 5 }),
  },
  "spend × move to another identity": {
    credits: EXACT,
    body: { externalId: "ada" },
    identities: { ada: SHARED, bob: SHARED },
    isWarm: true,
    cost: 4,
    change: (keyring, keyId) => keyring.updateKey({ keyId, externalId: "bob" }),
  },
  "spend × balance of its own": {
    credits: EXACT,
    body: { externalId: "ada" },
    identities: { ada: SHARED },
    isWarm: true,
    cost: 4,
    change: (keyring, keyId) => keyring.updateCredits({ keyId, operation: "set", value: 5 }),
  },
  "spend × balance given up for the identity's": {
    credits: EXACT,
    body: { externalId: "ada", credits: { remaining: 3 } },
    identities: { ada: SHARED },
    isWarm: true,
    cost: 4,
    change: (keyring, keyId) => keyring.updateKey({ keyId, creditsFrom: "identity" }),
  },
  "spend × credits null": {
    credits: EXACT,
    body: { externalId: "ada" },
    identities: { ada: { credits: { remaining: 3 } } },
    isWarm: true,
    cost: 4,
    change: (keyring, keyId) => keyring.updateKey({ keyId, credits: null }),
  },
  "spend × reroll of a key that draws": {
    credits: EXACT,
    body: { externalId: "ada" },
    identities: { ada: SHARED },
    cost: 4,
    change: (keyring, keyId) => keyring.rerollKey({ keyId, expiration: 1_000 }),
  },
  "draw × set of the identity": {
    credits: { ...LEASED, firstStep: 5 },
    body: { externalId: "ada" },
    identities: { ada: SHARED },
    isWarm: true,
    cost: 4,
    change: (keyring) => keyring.updateIdentityCredits({ identity: "ada", operation: "set", value: 3 }),
  },
  "spend × deletion of the identity": {
    credits: EXACT,
    body: { externalId: "ada" },
    identities: { ada: SHARED },
    isWarm: true,
    cost: 4,
    change: (keyring) => keyring.deleteIdentity({ identity: "ada", keys: "disable" }),
  },
  "adopt × delete": {
    credits: EXACT,
    body: {},
    isImported: true,
    cost: 0,
    change: (keyring, keyId) => keyring.deleteKey({ keyId, permanent: true }),
  },
  "find × revoke": {
    credits: EXACT,
    body: {},
    cost: 0,
    change: (keyring, keyId) => keyring.updateKey({ keyId, enabled: false }),
  },
} as const satisfies Record<string, Pair>;

export type PairName = keyof typeof PAIRS;

/** @param plant a mistake that some schedule must find */
export function sceneOf(name: PairName, plant?: Plant): Scene {
  const { credits, body, identities = {}, isImported = false, isWarm = false, cost, change }: Pair = PAIRS[name];
  // Leases end with their verifier.
  const verifierOf = credits.mode === "leased" ? undefined : reused();
  let end = (): unknown => undefined;
  return {
    async set() {
      const time = new VirtualTime();
      const restore = time.install();
      const bed = memoryBed();
      end = () => {
        restore();
        return bed.close();
      };
      const settings = { credits: [credits, EXACT], hearsAtOnce: true, isPollSync: false, sharesLimiter: false };
      const world = new World(time, bed, { ...settings, cacheSize: 8, start: START, plant });
      const key = await setUp(world, body, identities, isImported);
      const [client] = world.slots;
      if (verifierOf !== undefined) client!.use(verifierOf(client!));
      const { keyId } = world.records.current(key)!;
      if (isWarm) {
        await world.begin(client!, verify(world, { key, cost: 0 }));
        for (let [call] = world.calls(); call !== undefined; [call] = world.calls()) await world.advance(call);
      }
      const call = verify(world, { key, cost, isByMigration: isImported });
      return { world, operations: [call, admin("the change", (keyring) => change(keyring, keyId))] };
    },
    end: () => end(),
  };
}

async function setUp(
  world: World,
  body: object,
  identities: Required<Pair>["identities"],
  isImported: boolean,
): Promise<PresentedKey> {
  let key: PresentedKey = importedKey(0);
  await world.setUp(async (keyring) => {
    const { apiId } = await keyring.createApi({ name: "api" });
    for (const [externalId, given] of Object.entries(identities))
      await keyring.createIdentity({ externalId, ...given });
    if (!isImported) {
      key = presented((await keyring.createKey({ ...body, apiId })).key);
      return;
    }
    await keyring.createMigration({ id: MIGRATION, algorithm: "sha512" });
    await keyring.migrateKeys({ migrationId: MIGRATION, apiId, keys: [{ hash: importedKey(0).hash, ...body }] });
  });
  world.records.add(key, 0);
  return key;
}

/**
 * One verifier for the clients of many worlds: making one takes longer than a schedule. It forgets all that it has
 * cached in between.
 */
function reused(): (client: Client) => Verifier {
  let current: Client;
  let verifier: Verifier | undefined;
  const listeners: ((change: Change) => void)[] = [];
  return (client) => {
    current = client;
    const { store, options } = client.opens;
    for (const listener of listeners) {
      listener("all");
      store.subscribe(listener);
    }
    if (verifier === undefined) {
      const { powers, ...methods } = store;
      const names = Object.keys(methods) as (keyof typeof methods)[];
      const calls = names.map((name) => [name, (...given: never[]) => (current.opens.store[name] as Method)(...given)]);
      const subscribe = (listener: (change: Change) => void) => {
        listeners.push(listener);
        return current.opens.store.subscribe(listener);
      };
      const following = trust({ ...(Object.fromEntries(calls) as unknown as typeof methods), powers, subscribe });
      verifier = createVerifier(following, { ...options, usage: false, clock: () => current.clock() });
    }
    return { ...verifier, close: () => Promise.resolve() };
  };
}

type Method = (...given: never[]) => unknown;
