/**
 * Tells the store, in batches, when keys were last used (to the minute), and the first characters of imported keys, and
 * ends grants of their owners that are used up.
 *
 * A verification compares two numbers. Only the first use of a key in each minute is noted. Notes are written in the
 * background, never by a call: {@link DELAY} milliseconds after the first note of a use, {@link START_DELAY} after the
 * first note of an imported key's first characters. A batch that fails is dropped; a later use notes the key again.
 * Grants are looked at when their key is first used in an hour.
 *
 * The first use in a minute takes 0.6 µs more, and its write 2 to 4 µs of processor time later; further uses in that
 * minute cost nothing.
 */
import type { CachedKey } from "../cache/cached-key.js";
import type { KeyUse, Store, Write } from "../contracts/store.js";
import { endUsedUpGrants, type GrantsOwner } from "../keyring/used-up-grants.js";
import { isUnknownStart, startOf, UNKNOWN_START } from "../lib/hash.js";
import { startTimer, nextTurn } from "../lib/timers.js";

const MINUTE = 60_000;
/** In minutes. */
const HOUR = 60;
/** Milliseconds from a note to its write. */
const DELAY = 5_000;
/** The delay for the first characters of an imported key, which somebody may be waiting to see. */
const START_DELAY = 50;
/** Most waiting notes of each kind: beyond them, a use goes unrecorded until the key's next minute. */
const MAX_WAITING = 100_000;
/** Most owners of grants that wait to be looked at, some reads each; beyond them, one waits for a later call. */
const MAX_OWNERS = 100;
/** Notes per store call; the event loop runs between the calls (store clause 24). */
const MAX_BATCH = 1_000;

/** @param recordsUses whether to record when keys were last used; needs `store.powers.usage` */
export function createKeyUsage(store: Store, recordsUses: boolean) {
  const uses: Waiting<number> = { notes: new Map(), delay: DELAY };
  /** Start by key id. */
  const starts: Waiting<string> = { notes: new Map(), delay: START_DELAY };
  /** When their key was used, by the owners of grants. */
  const owners: Waiting<{ readonly owner: GrantsOwner; readonly now: number }> = { notes: new Map(), delay: DELAY };
  let writing: Promise<void> | undefined;
  let isClosed = false;

  const write = async (): Promise<void> => {
    const [used, shown, granted] = [takeNotes(uses), takeNotes(starts), takeNotes(owners)];
    await inBatches(used, (batch) =>
      store.recordUses(batch.map(([keyId, minute]): KeyUse => ({ keyId, usedAt: minute * MINUTE }))),
    );
    await inBatches(shown, (batch) => writeStarts(store, batch));
    await endGrants(store, granted);
  };
  const writeAll = (): Promise<void> =>
    (writing ??= write().finally(() => {
      writing = undefined;
      if (uses.notes.size + owners.notes.size > 0) schedule(DELAY);
      if (starts.notes.size > 0) schedule(START_DELAY);
    }));
  const schedule = (delay: number): void => {
    if (!isClosed) startTimer(() => void writeAll(), delay);
  };
  const add = <T>({ notes, delay }: Waiting<T>, id: string, note: T): void => {
    if (isClosed || (notes.size >= MAX_WAITING && !notes.has(id))) return;
    const isFirst = writing === undefined && notes.size === 0;
    notes.set(id, note);
    if (isFirst) schedule(delay);
  };
  return {
    /** Notes that a key was found with this text. */
    note(key: CachedKey, text: string, now: number): void {
      const minute = Math.floor(now / MINUTE);
      if (minute !== key.usedMinute) {
        const isFirst = Math.floor(minute / HOUR) !== Math.floor(key.usedMinute / HOUR);
        const looksAt = isFirst && key.wallets !== undefined ? ownersOf(key) : [];
        // While too many wait, its next call is the first of the hour still.
        if (owners.notes.size + looksAt.length > MAX_OWNERS) return;
        key.usedIn(minute);
        if (recordsUses) add(uses, key.keyId, minute);
        for (const owner of looksAt) add(owners, owner.id, { owner, now });
      }
      if (key.startUnknown !== true || starts.notes.has(key.keyId)) return;
      const start = startOf(text);
      if (start !== UNKNOWN_START) add(starts, key.keyId, start);
    },
    /** Writes the notes so far. Never rejects. */
    async flush(): Promise<void> {
      await writing;
      await writeAll();
    },
    /** Writes the waiting notes of uses and starts, and ignores later ones. Never rejects. */
    async close(): Promise<void> {
      isClosed = true;
      owners.notes.clear();
      await writing;
      await write();
    },
  };
}

/** Notes of one kind that wait to be written, by id. */
interface Waiting<T> {
  readonly notes: Map<string, T>;
  /** Milliseconds from the first of them to their write. */
  readonly delay: number;
}

function takeNotes<T>({ notes }: Waiting<T>): (readonly [id: string, note: T])[] {
  const taken = [...notes];
  notes.clear();
  return taken;
}

/** The owners of the grants that cover a key's calls. */
function ownersOf({ wallets = [], keyId, identity }: CachedKey): GrantsOwner[] {
  return wallets
    .filter(({ accounts }) => accounts.some(({ grantId }) => grantId !== undefined))
    .flatMap(({ owner }): GrantsOwner[] => {
      if (owner === "key") return [{ table: "keys", id: keyId }];
      // Of a store of somebody's own a record may lack the owner of its accounts.
      return identity === undefined ? [] : [{ table: "identities", id: identity.id }];
    });
}

export type KeyUsage = ReturnType<typeof createKeyUsage>;

/** One after the other, up to the first that fails: a later call of their keys notes the others again. */
async function endGrants(
  store: Store,
  notes: readonly (readonly [ownerId: string, note: { readonly owner: GrantsOwner; readonly now: number }])[],
): Promise<void> {
  try {
    for (const [, { owner, now }] of notes) {
      await nextTurn();
      await endUsedUpGrants(store, owner, now);
    }
  } catch {
    // As for uses.
  }
}

/** Runs batch after batch; one that fails is dropped. */
async function inBatches<T>(items: readonly T[], run: (batch: readonly T[]) => unknown): Promise<void> {
  for (let i = 0; i < items.length; i += MAX_BATCH) {
    if (i > 0) await nextTurn();
    try {
      await run(items.slice(i, i + MAX_BATCH));
    } catch {
      // The store is busy, read-only or gone: verifications report that where it matters to them.
    }
  }
}

/** Fails as a whole if an administrator changed one of the keys meanwhile. */
async function writeStarts(store: Store, starts: readonly (readonly [keyId: string, start: string])[]): Promise<void> {
  const rows = await store.readMany(
    "keys",
    starts.map(([keyId]) => keyId),
  );
  const writes = rows.flatMap((row, i): Write[] => {
    const start = starts[i]?.[1];
    if (row === undefined || start === undefined || !isUnknownStart(row.start) || row.start === start) return [];
    return [{ table: "keys", row: { ...row, start } }];
  });
  if (writes.length > 0) await store.write(writes);
}
