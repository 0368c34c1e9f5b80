/** What clients do: verifications, and an administrator's changes of everything, each drawn from one seed. */
import { createHash } from "node:crypto";
import type { KeyRef } from "../../src/contracts/store.js";
import type { V2KeysVerifyKeyResponseData } from "../../src/contracts/types.js";
import type { Keyring } from "../../src/keyring/keyring.js";
import type { Dice } from "../model/dice.js";
import { isKeystileError } from "../../src/contracts/errors.js";
import { MAX } from "./account.js";
import type { Client } from "./client.js";
import { ONCE_LIMIT } from "./limits.js";
import type { PresentedKey } from "./records.js";
import type { Operation, World } from "./world.js";
import { must } from "./violation.js";

export const DAY = 86_400_000;
/** Most keys of a run. */
const MAX_KEYS = 8;
/** Times that a client asks again with an idempotency key. */
const MAX_REPEATS = 3;
export const MIGRATION = "mig_old";
export const APIS = 2;
export const ROLES = ["reader", "writer"] as const;
const PERMISSION = "docs.read";
export const IDENTITIES = ["ada", "bob"] as const;
const LIMIT = { name: "requests", limit: 3, duration: 60_000, autoApply: true } as const;
/** Administration may always find that something is gone, does not fit, or changed too often. */
const ADMIN_REFUSALS = ["NOT_FOUND", "BAD_REQUEST", "CONFLICT", "STORE_BUSY"];

/** Ids that set-up made. */
export interface Names {
  readonly apiIds: string[];
}

export const REFILLS = [
  null,
  { interval: "daily", amount: 5 },
  { interval: "daily", amount: 40 },
  { interval: "monthly", amount: 1_000, refillDay: 1 },
  { interval: "monthly", amount: 100_000, refillDay: 31 },
  { interval: "daily", amount: 5, rollover: 0 },
  { interval: "daily", amount: 40, rollover: 15 },
  { interval: "monthly", amount: 100, refillDay: 1, rollover: 1_000 },
] as const;
export const BALANCES = [0, 3, 10, 10, 40, 40, 1_000] as const;

export function presented(text: string): PresentedKey {
  return { text, digest: digest("sha256", text, "base64") };
}

/** Keys hashed elsewhere, by their number. */
export function importedKey(index: number): PresentedKey & { readonly hash: string } {
  const text = `old_key_number_${index}`;
  const foreignDigest = digest("sha512", text, "base64");
  return { ...presented(text), hash: digest("sha512", text, "hex"), migrationId: MIGRATION, foreignDigest };
}

function digest(algorithm: string, text: string, encoding: "hex" | "base64"): string {
  return createHash(algorithm).update(text).digest(encoding);
}

/** A body for a new key. */
export function keyBody(dice: Dice, apiId: string) {
  const refill = dice.pick(REFILLS);
  const remaining = dice.chance(0.03) ? MAX - 2 : dice.pick(BALANCES);
  const isUnlimited = dice.chance(0.25);
  return {
    apiId,
    ...(!isUnlimited && { credits: { remaining, ...(refill !== null && { refill }) } }),
    ...(dice.chance(0.3) && { ratelimits: [LIMIT] }),
    ...(dice.chance(0.3) && { externalId: dice.pick(IDENTITIES) }),
    ...(dice.chance(0.5) && { roles: [...ROLES] }),
  };
}

export interface VerifyParts {
  readonly key: PresentedKey;
  readonly cost: number;
  readonly permission?: string | undefined;
  readonly isByMigration?: boolean;
  /** The name of a limit that only this call asks for. */
  readonly once?: string | undefined;
  /** The client then repeats a call that failed: its cost is taken once. */
  readonly idempotencyKey?: string | undefined;
  /** The cost is reserved, for so many milliseconds. */
  readonly timeout?: number | undefined;
}

export function verify(world: World, parts: VerifyParts): Operation {
  const { key, cost, permission, isByMigration = false, once, idempotencyKey, timeout } = parts;
  const { records, limits, ledger } = world;
  let now = 0;
  /** Whether a call that was repeated may have taken the cost, or may take it yet. */
  let isUnknown = false;
  const excuse = (client: Client): void => {
    for (const id of isUnknown ? operation.spends.accountIds() : []) client.lost(id, cost);
  };
  const operation = {
    name: `${timeout === undefined ? "verify" : "reserve"} key ${records.keys.indexOf(key)} at ${cost}${permission === undefined ? "" : ` for ${permission}`}`,
    spends: {
      // What is reserved returns by itself.
      cost: timeout === undefined ? cost : 0,
      accountIds: () => new Set(records.recordsOf(key).flatMap((record) => ledger.sourceOf(record) ?? [])),
    },
    async run(client: Client) {
      for (let repeats = idempotencyKey === undefined ? 0 : MAX_REPEATS; ; repeats--) {
        now = client.clock();
        const request = {
          key: key.text,
          credits: { cost },
          ...(permission !== undefined && { permissions: permission }),
          ...(isByMigration && { migrationId: MIGRATION }),
          ...(once !== undefined && { ratelimits: [{ name: once, limit: ONCE_LIMIT, duration: 60_000 }] }),
        };
        try {
          if (timeout !== undefined) return await client.verifier.reserve(request, { timeout });
          return await client.verifier.verify(request, idempotencyKey === undefined ? undefined : { idempotencyKey });
        } catch (error) {
          isUnknown ||= idempotencyKey !== undefined && isKeystileError(error) && error.outcomeUnknown === true;
          if (repeats > 0) continue;
          excuse(client);
          throw error;
        }
      }
    },
    done(client: Client, response: V2KeysVerifyKeyResponseData & { readonly id?: string }, since: number) {
      const { code, credits, valid } = response;
      records.assertPossible(key, code, { now, permission, isByMigration }, world.knownFrom(since), world.step);
      must(valid === (code === "VALID"), "answer", () => `valid: ${valid} with ${code}`);
      must(credits === undefined || credits >= 0, "balance", () => `a balance of ${credits} answered`);
      const sources = new Set(
        records.recordsDuring(key, world.knownFrom(since), world.step).map((record) => ledger.sourceOf(record)),
      );
      if (code === "VALID") {
        const fits = credits === undefined ? sources.has(undefined) : [...sources].some((id) => id !== undefined);
        must(
          fits,
          "answer",
          () => `${credits ?? "unlimited"} credits of a key that drew on ${[...sources].join(" or ")}`,
        );
      }
      sources.delete(undefined);
      if (timeout !== undefined) {
        if (response.id !== undefined && refIn(response.id) !== undefined)
          world.reservations.push({ id: response.id, cost });
      } else if (code === "VALID" && credits !== undefined && cost > 0) {
        const [source] = sources;
        // Which of several it was is not answered: each may have been.
        if (sources.size > 1) for (const id of sources) client.lost(id!, cost);
        else {
          client.acknowledged(source!, cost);
          ledger.acknowledge(source!, cost);
        }
        // What tells a repeat is kept for a day, by the clock of any client.
        if (world.hasJumpedFar) excuse(client);
      } else excuse(client);
      limits.note(client, response, once, (id) => records.bucketOf(id));
    },
  };
  return operation;
}

/** The account that a reservation's handle names between workspace and signature, unless it took nothing. */
function refIn(handle: string): KeyRef | undefined {
  const [, , told = ""] = handle.split(".");
  return (JSON.parse(Buffer.from(told, "base64url").toString()) as { readonly ref?: KeyRef }).ref;
}

/** Settles one of the reservations of any client, which may have ended before. */
function settle(world: World, dice: Dice): Operation {
  const { id, cost } = dice.pick(world.reservations);
  const spent = dice.pick([0, 1, Math.floor(cost / 2), cost].filter((each) => each <= cost));
  const accountId = world.ledger.idOfRef(refIn(id)!);
  return {
    name: `settle ${spent} of ${cost}`,
    spends: { cost: spent, accountIds: () => [accountId] },
    run: (client) => client.verifier.settle(id, spent),
    done(client, settlement: { readonly settled: boolean }) {
      if (!settlement.settled) return;
      client.acknowledged(accountId, spent);
      world.ledger.acknowledge(accountId, spent);
    },
  };
}

export function admin(
  name: string,
  act: (keyring: Keyring) => Promise<unknown>,
  done?: (result: never) => void,
): Operation {
  return {
    name,
    run: ({ keyring }) => act(keyring),
    refusals: ADMIN_REFUSALS,
    ...(done && { done: (_, result) => done(result) }),
  };
}

type Draw = (world: World, names: Names, dice: Dice) => Operation;

const keyIdOf = (world: World, key: PresentedKey): string => world.records.current(key)?.keyId ?? "key_gone";
const anyKey = (world: World, dice: Dice): PresentedKey => world.records.at(dice.below(world.records.count));

/** A change of one key. */
const ofKey =
  (name: string, act: (keyring: Keyring, keyId: string, dice: Dice, world: World) => Promise<unknown>): Draw =>
  (world, _, dice) => {
    const key = anyKey(world, dice);
    const keyId = keyIdOf(world, key);
    return admin(`${name} of key ${world.records.keys.indexOf(key)}`, (keyring) => act(keyring, keyId, dice, world));
  };

const learn = (world: World, text: string): void => {
  if (world.records.count < MAX_KEYS) world.records.add(presented(text), world.step);
};

/** With their weights. */
const CHANGES: readonly (readonly [weight: number, Draw])[] = [
  [
    10,
    ofKey("refill", (keyring, keyId, dice) => keyring.updateKey({ keyId, credits: { refill: dice.pick(REFILLS) } })),
  ],
  [
    6,
    ofKey("set", (keyring, keyId, dice) =>
      keyring.updateCredits({ keyId, operation: "set", value: dice.chance(0.1) ? null : dice.pick(BALANCES) }),
    ),
  ],
  [
    6,
    ofKey("increment", (keyring, keyId, dice) =>
      keyring.updateCredits({ keyId, operation: dice.pick(["increment", "decrement"]), value: dice.pick([1, 7, 50]) }),
    ),
  ],
  [
    3,
    ofKey("balance and refill", (keyring, keyId, dice) =>
      keyring.updateKey({ keyId, credits: { remaining: dice.pick(BALANCES), refill: dice.pick(REFILLS) } }),
    ),
  ],
  [
    6,
    (world, _names, dice) => {
      const keyId = keyIdOf(world, anyKey(world, dice));
      const expiration = dice.pick([0, 0, 1_000, DAY]);
      return admin(
        "reroll",
        (keyring) =>
          world.records.count < MAX_KEYS ? keyring.rerollKey({ keyId, expiration }) : keyring.getKey({ keyId }),
        (result: { readonly key?: string }) => result.key !== undefined && learn(world, result.key),
      );
    },
  ],
  [4, ofKey("enabled", (keyring, keyId, dice) => keyring.updateKey({ keyId, enabled: dice.chance(0.6) }))],
  [
    3,
    ofKey("expires", (keyring, keyId, dice, world) => {
      const now = world.settings.start + world.time.now;
      return keyring.updateKey({ keyId, expires: dice.pick([null, null, now, now + 1_000, now + DAY]) });
    }),
  ],
  [
    3,
    ofKey("limits", (keyring, keyId, dice) =>
      keyring.updateKey({ keyId, ratelimits: dice.pick([[], [LIMIT], [{ ...LIMIT, limit: 8 }]]) }),
    ),
  ],
  [
    3,
    ofKey("identity", (keyring, keyId, dice) =>
      keyring.updateKey({ keyId, externalId: dice.pick([null, ...IDENTITIES]) }),
    ),
  ],
  [
    2,
    (_world, _names, dice) =>
      admin("limits of an identity", (keyring) =>
        keyring.updateIdentity({
          identity: dice.pick(IDENTITIES),
          ratelimits: dice.pick([[], [{ ...LIMIT, limit: 5 }]]),
        }),
      ),
  ],
  [
    2,
    (_world, _names, dice) => {
      const keys = dice.chance(0.4) ? { keys: "disable" as const } : {};
      return admin("deletion of an identity", (keyring) =>
        keyring.deleteIdentity({ identity: dice.pick(IDENTITIES), ...keys }),
      );
    },
  ],
  [
    6,
    (_world, _names, dice) =>
      admin("credits of an identity", (keyring) => {
        const identity = dice.pick(IDENTITIES);
        if (dice.chance(0.4))
          return keyring.updateIdentityCredits({ identity, operation: "increment", value: dice.pick([1, 7, 50]) });
        const value = dice.chance(0.15) ? null : dice.pick(BALANCES);
        return keyring.updateIdentityCredits({ identity, operation: "set", value });
      }),
  ],
  [
    3,
    (_world, _names, dice) =>
      admin("refill of an identity", (keyring) =>
        keyring.updateIdentity({ identity: dice.pick(IDENTITIES), credits: { refill: dice.pick(REFILLS) } }),
      ),
  ],
  [
    1,
    (_world, _names, dice) =>
      admin("new identity", (keyring) =>
        keyring.createIdentity({ externalId: dice.pick(IDENTITIES), credits: { remaining: dice.pick(BALANCES) } }),
      ),
  ],
  [
    4,
    ofKey("source", (keyring, keyId, dice) =>
      keyring.updateKey({ keyId, creditsFrom: dice.chance(0.8) ? "identity" : "none" }),
    ),
  ],
  [3, ofKey("roles", (keyring, keyId, dice) => keyring.setRoles({ keyId, roles: dice.some(ROLES) }))],
  [
    2,
    (_world, _names, dice) =>
      admin("permissions of a role", (keyring) =>
        keyring.setRolePermissions({ roleId: dice.pick(ROLES), permissions: dice.chance(0.5) ? [PERMISSION] : [] }),
      ),
  ],
  [
    3,
    (_world, { apiIds }, dice) =>
      admin("api enabled", (keyring) => keyring.updateApi({ apiId: dice.pick(apiIds), enabled: dice.chance(0.6) })),
  ],
  [
    1,
    (_world, _names, dice) =>
      admin("workspace enabled", (keyring) => keyring.updateWorkspace({ enabled: dice.chance(0.7) })),
  ],
  [1, ofKey("deletion", (keyring, keyId) => keyring.deleteKey({ keyId }))],
  [1, ofKey("removal", (keyring, keyId) => keyring.deleteKey({ keyId, permanent: true }))],
  [
    0.2,
    (_world, { apiIds }, dice) => admin("api deletion", (keyring) => keyring.deleteApi({ apiId: dice.pick(apiIds) })),
  ],
  [
    3,
    (_world, { apiIds }, dice) =>
      admin("import", (keyring) =>
        keyring.migrateKeys({
          migrationId: MIGRATION,
          apiId: dice.pick(apiIds),
          keys: [0, 1].map((i) => ({ hash: importedKey(i).hash, credits: { remaining: 10 } })),
        }),
      ),
  ],
  [
    1,
    (world, { apiIds }, dice) =>
      admin(
        "new key",
        (keyring) =>
          world.records.count < MAX_KEYS ? keyring.createKey(keyBody(dice, dice.pick(apiIds))) : keyring.getWorkspace(),
        (result: { readonly key?: string }) => result.key !== undefined && learn(world, result.key),
      ),
  ],
  [3, ofKey("reading", (keyring, keyId) => keyring.getKey({ keyId }))],
];
const TOTAL = CHANGES.reduce((sum, [weight]) => sum + weight, 0);

/** Any operation. */
export function anyOperation(world: World, names: Names, dice: Dice, seed: number): Operation {
  if (world.bed.connections !== undefined && dice.chance(0.15)) {
    const key = anyKey(world, dice);
    const idempotencyKey = key.migrationId === undefined ? `call_${seed}` : undefined;
    return verify(world, { key, cost: dice.pick([1, 2, 3, 9]), idempotencyKey });
  }
  if (dice.chance(0.6)) {
    if (world.reservations.length > 0 && dice.chance(0.15)) return settle(world, dice);
    const key = anyKey(world, dice);
    return verify(world, {
      key,
      timeout: dice.chance(0.15) ? dice.pick([1_000, 60_000, DAY]) : undefined,
      cost: dice.pick([0, 1, 1, 1, 2, 3, 9, 30]),
      permission: dice.chance(0.2) ? PERMISSION : undefined,
      isByMigration: key.migrationId !== undefined && dice.chance(0.8),
      once: dice.chance(0.3) ? `once_${seed}` : undefined,
    });
  }
  let roll = (dice.below(2 ** 30) / 2 ** 30) * TOTAL;
  const [, draw] = CHANGES.find(([weight]) => (roll -= weight) < 0) ?? CHANGES[0]!;
  return draw(world, names, dice);
}
