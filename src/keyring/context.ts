/** What every administrative operation uses: the store, its workspace, the clock, and one way to change a row. */
import type { AuditEntry } from "../contracts/audit.js";
import type { Caller } from "../contracts/caller.js";
import { isKeystileError, KeystileError } from "../contracts/errors.js";
import type { StandardSchema } from "../contracts/standard-schema.js";
import type { Store, WriteOnce } from "../contracts/store.js";
import { drop } from "../lib/callbacks.js";
import { DEFAULT_WORKSPACE, guardClock } from "../lib/check-options.js";
import type { EventQueue } from "../lib/event-queue.js";
import { guardStore, type StoreGuardOptions } from "../lib/guards/guard-store.js";
import { hasIdForm, newId } from "../lib/hash.js";
import { type Algorithms, createAlgorithms, type MigrationAlgorithms } from "../lib/migration-hashes.js";
import { createKept, type Kept } from "./kept.js";
import { nextTurn, setTimeout } from "../lib/timers.js";

/** What all calls of a keyring share; built once. */
export interface Shared {
  /** For reading; `write.ts` is the way for changes. */
  readonly store: Omit<Store, "write" | "insertKeys">;
  /** The whole of it, for `write.ts` alone: what is written to it directly is not in the audit trail. */
  readonly unaudited: Store;
  /** As the program gave it, which tells stores apart; nothing calls it. */
  readonly given: Store;
  readonly workspaceId: string;
  /** Unix time, milliseconds. */
  readonly clock: () => number;
  /** Ids of new rows. @param now Unix time, milliseconds */
  readonly newId: (prefix: string, now: number) => string;
  readonly algorithms: Algorithms;
  /** Of the metadata of keys; undefined: any. */
  readonly meta?: StandardSchema | undefined;
  /** Where entries go, and whose they are unless a call says otherwise. */
  readonly audit: Audit;
  readonly mutex: KeyedMutex;
  readonly turns: Turns;
  readonly kept: Kept;
}

/** What one call works with besides. */
export interface OfCall {
  /** The operation's name, for the audit trail. */
  readonly operation: string;
  /** Who calls, where the program serves others; `undefined`: the program itself. */
  readonly caller: Caller | undefined;
  /** When it began, Unix time in milliseconds. Of an import: when its batch did. */
  readonly now: number;
  readonly progress: Progress;
  /** Whether nobody waits for the answer of this call any more, so that long work ends; absent: it is not known. */
  readonly isGone?: (() => boolean) | undefined;
  /** As it was given; absent: none. */
  readonly idempotencyKey?: unknown;
  /** Why the balance is changed, for the audit trail; absent: nobody said. */
  readonly reason?: string;
  /** What the one write of this call records; absent: nothing. */
  readonly once?: WriteOnce;
}

/** What an operation works with. */
export interface Context extends Shared, OfCall {}

/** Options that all operations have; each is documented where a program gives it. */
interface ContextOptions extends StoreGuardOptions {
  readonly workspaceId?: string;
  readonly clock?: () => number;
  readonly newId?: Shared["newId"];
  readonly migrationAlgorithms?: MigrationAlgorithms;
}

/** @param options that were checked */
export function createContext(given: Store, options: ContextOptions, audit: Audit): Shared {
  const store = guardStore(given, options.storeTimeout);
  const clock = guardClock(options.clock ?? Date.now);
  return {
    store,
    unaudited: store,
    given,
    workspaceId: options.workspaceId ?? DEFAULT_WORKSPACE,
    clock,
    newId: guardNewId(options.newId),
    algorithms: createAlgorithms(options.migrationAlgorithms),
    audit,
    mutex: createKeyedMutex(),
    turns: createTurns(),
    kept: createKept(clock),
  };
}

/** What a call has done so far: `write.ts` notes it, and `operation.ts` tells it with what fails afterwards. */
export interface Progress {
  hasWritten: boolean;
  /** Its idempotency key was used before: nothing was written. */
  isRepeated?: true;
}

/** What reading rows takes. */
export type Reading = Pick<Shared, "store" | "turns">;
/** What reading balances takes: the refills that are due by then count. */
export interface ReadingAt extends Reading {
  /** Unix time, milliseconds. */
  readonly now: number;
}

/** Who acts, and where the entries go. */
export interface Audit {
  readonly actor: Pick<AuditEntry, "actorKind" | "actor">;
  /** Absent: nobody listens. */
  readonly queue: EventQueue<AuditEntry> | undefined;
}

/**
 * The ids of new rows: keystile's own, or a program's, checked. One of another form could be taken for a name, and
 * would not be found as an id.
 * @throws RangeError, when called, for an id of another form
 */
export function guardNewId(make: Shared["newId"] | undefined): Shared["newId"] {
  if (make === undefined) return newId;
  return (prefix, now) => {
    const id: unknown = make(prefix, now);
    if (typeof id === "string" && hasIdForm(prefix, id)) return id;
    drop(id);
    const characters = "22 characters of 1-9, A-Z and a-z, without I, O and l";
    throw new RangeError(
      `options.newId must return \`${prefix}_\` and ${characters}, as testIds() of keystile/testing does`,
    );
  };
}

/** Runs changes of one row in sequence; changes of different rows run concurrently. */
export type KeyedMutex = <T>(id: string, act: () => Promise<T>) => Promise<T>;

/** Attempts before giving up: each failure means that another writer succeeded. */
const MAX_ATTEMPTS = 20;
/** From this attempt on there is a pause, so that writers that collide do not keep the same rhythm. */
const FIRST_PAUSE = 3;

/**
 * Without it, a hundred changes of one key started at once would keep conflicting. When one ends in STORE_BUSY, those
 * queued behind it end with it: they have waited for the store too, and in sequence each would wait as long again.
 */
export function createKeyedMutex(): KeyedMutex {
  const tails = new Map<string, Promise<unknown>>();
  return async (id, act) => {
    const before = tails.get(id);
    const mine = before === undefined ? act() : before.then(act);
    const tail = mine.then(nothing, passOnBusy);
    tail.catch(nothing);
    tails.set(id, tail);
    try {
      return await mine;
    } finally {
      if (tails.get(id) === tail) tails.delete(id);
    }
  };
}

/**
 * Reads, changes and writes a row until no other writer came between (store clause 13).
 * @param id names the row within this process
 * @param attempt reads afresh each time; `undefined`: its write was refused
 * @throws KeystileError STORE_BUSY after 20 refusals; whatever the attempt throws
 */
export function updateWithRetry<T extends object>(
  context: Context,
  id: string,
  attempt: () => Promise<T | undefined>,
): Promise<T> {
  return context.mutex(id, async () => {
    for (let attempts = 1; attempts <= MAX_ATTEMPTS; attempts++) {
      const done = await attempt();
      if (done !== undefined) return done;
      if (attempts >= FIRST_PAUSE) await pause(attempts);
    }
    throw new KeystileError("STORE_BUSY", "other writers kept changing what was to be written; try again");
  });
}

/** Creates {@link Turns}. Without it sixteen pages of 4 MiB, asked for at once, take turns of 140 ms. */
export function createTurns() {
  let last = Promise.resolve();
  let running = 0;
  const next = (): Promise<void> => (last = last.then(() => pause(0)));
  return {
    /** Waits for a turn that nobody else waited for. */
    next,
    /** Runs an act that waits for {@link Turns.next} now and then; at once unless another one runs. */
    async run<T>(act: () => Promise<T>): Promise<T> {
      running++;
      try {
        if (running > 1) await next();
        return await act();
      } finally {
        running--;
      }
    },
  };
}

/**
 * Long answers of one keyring take turns of the event loop: calls that pause at the same moment would also resume at
 * the same moment, in one long turn.
 */
type Turns = ReturnType<typeof createTurns>;

/** Yields to timers, input and other writers, so long. */
export function pause(milliseconds: number): Promise<void> {
  return milliseconds === 0 ? nextTurn() : new Promise((resolve) => void setTimeout(resolve, milliseconds));
}

function passOnBusy(error: unknown): void {
  if (isKeystileError(error) && error.code === "STORE_BUSY") throw error;
}

function nothing(): void {}
