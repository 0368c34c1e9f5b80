/**
 * Where a history is played: the engine on one store or on two handles of it, the model beside it, and what compares
 * them.
 */
import { isDeepStrictEqual } from "node:util";
import { isKeystileError, type KeystileErrorCode } from "../../src/contracts/errors.js";
import type { Store } from "../../src/contracts/store.js";
import type { MaybePromise } from "../../src/contracts/types.js";
import { createKeyring, type Keyring } from "../../src/keyring/keyring.js";
import { createVerifier, type Verifier } from "../../src/verify/verifier.js";
import type { Dice } from "./dice.js";
import { modelLimiter } from "../ratelimit/model.js";
import type { ModelVerifier } from "./naive-verify.js";
import { createWorld, type ModelLimit, type ModelWorkspace, type World } from "./world.js";

/** A store to play on. */
export interface Bed {
  /** A handle on the one store: the same object again, or another handle of the same file. */
  open(): MaybePromise<Store>;
  /** Whether two handles need a turn of the event loop to see each other's changes. */
  readonly handles: "one" | "two";
  /**
   * Ends all handles, as a clean stop or as a crash would; `open` then finds what was left. Absent: nothing is left.
   */
  restart?(how: "stop" | "crash"): MaybePromise<void>;
  close(): MaybePromise<void>;
}

/** A verifier and what the model keeps of it. */
export interface Judge {
  readonly verifier: Verifier;
  readonly model: ModelVerifier;
}

/** One process, as it were: its own handle, caches and buckets. */
export interface Hand {
  readonly keyrings: ReadonlyMap<ModelWorkspace, Keyring>;
  /** One for all workspaces, one that sees only the first. */
  readonly judges: readonly [Judge, Judge];
}

export interface Stage {
  readonly world: World;
  readonly dice: Dice;
  hand: Hand;
  /** What the step does, for the story of a failure. */
  note(what: string, ...details: unknown[]): void;
  readonly counts: Map<string, number>;
  restart(): Promise<void>;
}

export async function openHand(bed: Bed, world: World): Promise<Hand> {
  const store = await bed.open();
  // Verifiers of a store that tell time by the same function share buckets: those of one hand, and no others.
  const clock = () => world.now;
  const limiter = modelLimiter();
  const [first] = world.workspaces;
  return {
    keyrings: new Map(
      world.workspaces.map((workspace) => [workspace, createKeyring(store, { workspaceId: workspace.id, clock })]),
    ),
    judges: [
      {
        verifier: createVerifier(store, { clock, cache: { size: 64 } }),
        model: { limiter, workspace: undefined },
      },
      {
        verifier: createVerifier(store, { clock, workspaceId: first.id, cache: { size: 3 } }),
        model: { limiter, workspace: first },
      },
    ],
  };
}

export async function closeHand({ judges }: Hand): Promise<void> {
  for (const { verifier } of judges) await verifier.close();
}

/** 30 January of a leap year, noon: a day and a half before a monthly boundary of most refill days. */
export const START = Date.UTC(2024, 0, 30, 12);

export const newWorld = (): World => createWorld(START);

/** @throws Error that shows both when they differ in any property, own `undefined` included */
export function same(what: string, actual: unknown, expected: unknown): void {
  if (isDeepStrictEqual(actual, expected)) return;
  throw new Error(`${what}: the engine answered ${show(actual)}, the model ${show(expected)}`);
}

/** The call must be refused with this code, and at these locations. */
export async function refused(
  what: string,
  call: Promise<unknown>,
  code: KeystileErrorCode,
  locations?: readonly string[],
): Promise<void> {
  const outcome = await call.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if ("value" in outcome)
    throw new Error(`${what}: the engine answered ${show(outcome.value)}, the model refuses with ${code}`);
  if (!isKeystileError(outcome.error)) throw outcome.error;
  same(`${what}: code`, outcome.error.code, code);
  if (locations !== undefined)
    same(
      `${what}: locations`,
      outcome.error.errors.map(({ location }) => location),
      locations,
    );
}

/** An id that the engine made: well formed, and never seen before. */
export function learnId(world: World, id: unknown, pattern: RegExp): string {
  if (typeof id !== "string" || !pattern.test(id))
    throw new Error(`the engine made an id that is not well formed: ${show(id)}`);
  if (world.ids.has(id)) throw new Error(`the engine made the id ${id} twice`);
  world.ids.add(id);
  return id;
}

const LIMIT_ID = /^rl_[a-zA-Z0-9_]{5,252}$/;

/** Takes the ids of limits from an answer where the model does not know them yet. */
export function learnLimits(
  world: World,
  limits: readonly ModelLimit[],
  shown: readonly { readonly id: string; readonly name: string }[] = [],
): void {
  for (const limit of limits)
    limit.id ??= maybe(shown.find(({ name }) => name === limit.name)?.id, (id) => learnId(world, id, LIMIT_ID));
}

function maybe<T, R>(value: T | undefined, make: (value: T) => R): R | undefined {
  return value === undefined ? undefined : make(value);
}

export function show(value: unknown): string {
  return (
    JSON.stringify(value, (_name, inner: unknown) =>
      typeof inner === "bigint" ? `${inner}n` : inner === undefined ? "<undefined>" : inner,
    ) ?? "undefined"
  );
}
