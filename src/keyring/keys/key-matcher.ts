/** Which keys a search is for, and how those rank that have no index. */
import type { IdentityRow, KeyHints, KeyPosition, KeyRow } from "../../contracts/store.js";
import { isListedAs } from "../../lib/key-state.js";
import type { Context, Reading, ReadingAt } from "../context.js";
import { readRows } from "../rows.js";
import { createSearch } from "../search.js";
import type { SearchKeysRequestBody } from "../schemas/requests.js";
import { drawnCredits, type KnownRows, stateOf } from "./key-response.js";

/** A key with what it is ranked by. */
export interface Ranked {
  readonly row: KeyRow;
  readonly value: number;
}

/**
 * @param known the APIs whose keys are searched, and their workspace
 */
export function createMatcher(context: Context, request: SearchKeysRequestBody, known: KnownRows) {
  const { now } = context;
  const { state, expiresBefore, expiresFrom, creditsBelow } = request;
  const before = expiresBefore ?? Infinity;
  const looksAtExpiry = expiresBefore !== undefined || expiresFrom !== undefined;
  const hints = hintsOf(request, now);
  /** Whether a key matches by expiry and state, its credits left aside: balances are read next, of these keys only. */
  const mayMatch = (row: KeyRow, known: KnownRows): boolean => {
    if (looksAtExpiry) {
      const owner = known.identities.get(row.identityId ?? "");
      const expires = Math.min(row.expires ?? Infinity, owner?.expires ?? Infinity);
      if (expires === Infinity || expires >= before || expires < (expiresFrom ?? -Infinity)) return false;
    }
    const withCredits = stateOf(row, known, null, now);
    const mayBeExhausted = withCredits === "active" && state === "exhausted";
    return state === undefined || mayBeExhausted || isListedAs(state, withCredits, row.rerolledTo);
  };
  const looksAtCredits = creditsBelow !== undefined || state === "active" || state === "exhausted";
  return {
    /** What every key has that matches, besides the text. */
    hints,
    /** The keys that match, in their order. */
    async filter(rows: readonly KeyRow[], text: string | undefined): Promise<readonly KeyRow[]> {
      const search = createSearch("keys", text);
      // Not kept: a search may meet every owner there is.
      const identities = new Map<string, IdentityRow>();
      if (state !== undefined || looksAtExpiry || search !== undefined) await readOwners(context, rows, identities);
      const related = { ...known, identities };
      const holds = (row: KeyRow): boolean =>
        search === undefined ||
        search.matches(row) ||
        search.isIn(identities.get(row.identityId ?? "")?.externalId ?? "");
      const found = rows.filter((row) => mayMatch(row, related) && holds(row));
      if (!looksAtCredits || found.length === 0) return found;
      const balances = await balancesOf(context, found, identities);
      return found.filter((row, i) => {
        const remaining = balances[i] ?? null;
        if (creditsBelow !== undefined && !(remaining !== null && remaining < creditsBelow)) return false;
        return state === undefined || isListedAs(state, stateOf(row, related, remaining, now), row.rerolledTo);
      });
    },
    /** Before the first key that can match. */
    startOf: (order: "made" | "expires"): KeyPosition | undefined =>
      order === "expires" && hints.expiresFrom !== undefined ? { id: "", expires: hints.expiresFrom } : undefined,
    /** Whether no key after this one can match. */
    endsAt: (order: "made" | "expires", { expires = 0 }: KeyPosition): boolean =>
      order === "expires" && expires >= (state === "rotated" ? Math.min(before, now) : before),
    ranking(order: keyof typeof RANKS, best: Best): Ranking {
      const { valuesOf, hintsOf } = RANKS[order](context);
      return createRanking({ valuesOf, hintsOf: (below) => ({ ...hints, ...hintsOf(below, hints) }) }, best);
    },
  };
}

export type Matcher = ReturnType<typeof createMatcher>;

function hintsOf(request: SearchKeysRequestBody, now: number): KeyHints {
  const { state, expiresBefore = Infinity, expiresFrom = -Infinity, creditsBelow = Infinity } = request;
  const before = Math.min(expiresBefore, state === "expired" || state === "rotated" ? now : Infinity);
  const below = Math.min(creditsBelow, state === "exhausted" ? 1 : Infinity);
  const isCurrent = state === "active" || state === "exhausted" || state === "forbidden" || state === "replaced";
  const from = Math.max(expiresFrom, isCurrent ? now : -Infinity);
  return {
    ...(state !== undefined && state !== "deleted" && { enabled: state !== "disabled" }),
    ...(before < Infinity && { expiresBefore: before }),
    ...(from > -Infinity && { expiresFrom: from }),
    ...(below < Infinity && { creditsBelow: below }),
  };
}

/** Which keys a ranking keeps. */
export interface Best {
  readonly size: number;
  /** Only keys that come after this one. */
  readonly after?: { readonly id: string; readonly value: number } | undefined;
  /** Whether one walk adds the keys, newest first: of two that rank alike, the one added first stays. */
  readonly isOneWalk: boolean;
}

/** How an order ranks keys: lower values come first. */
interface Rank {
  readonly valuesOf: (rows: readonly KeyRow[]) => Promise<readonly (number | null | undefined)[]>;
  /** What a key has whose value may be below this. @param hints what every key has that matches */
  readonly hintsOf: (below: number, hints: KeyHints) => KeyHints;
}

const RANKS = {
  credits: (context: Context): Rank => ({
    valuesOf: (rows) => balancesOf(context, rows),
    hintsOf: (below, { creditsBelow = Number.MAX_SAFE_INTEGER }) => ({ creditsBelow: Math.min(below, creditsBelow) }),
  }),
  /** Of deleted keys, which no index has by this. */
  expires: (): Rank => ({
    valuesOf: (rows) => Promise.resolve(rows.map(({ expires }) => expires)),
    hintsOf: (below, { expiresBefore = Number.MAX_SAFE_INTEGER }) => ({
      expiresBefore: Math.min(below, expiresBefore),
    }),
  }),
  // The latest first.
  lastUsed: (): Rank => ({
    valuesOf: (rows) =>
      Promise.resolve(rows.map(({ lastUsedAt }) => (lastUsedAt === undefined ? undefined : -lastUsedAt))),
    hintsOf: (below) => ({ usedFrom: Math.max(-Number.MAX_SAFE_INTEGER, 1 - below) }),
  }),
} as const;

function createRanking(
  { valuesOf, hintsOf }: Omit<Rank, "hintsOf"> & { readonly hintsOf: (below: number) => KeyHints },
  { size, after, isOneWalk }: Best,
) {
  let best: Ranked[] = [];
  const isAfter = ({ row, value }: Ranked): boolean =>
    after === undefined || value > after.value || (value === after.value && row.id < after.id);
  return {
    /** What a key has that matches, and could still be among them. */
    hints(): KeyHints {
      if (best.length < size) return hintsOf(Infinity);
      const { row, value } = best.at(-1) as Ranked;
      return isOneWalk ? hintsOf(value) : { ...hintsOf(value + 1), idAbove: row.id };
    },
    async add(given: readonly KeyRow[]): Promise<void> {
      // A key may come twice: by its own balance, and by that of its owner.
      const known = new Set(best.map(({ row }) => row.id));
      const rows = [...new Map(given.map((row) => [row.id, row])).values()].filter(({ id }) => !known.has(id));
      if (rows.length === 0) return;
      const values = await valuesOf(rows);
      const ranked = rows.flatMap((row, i): Ranked[] => {
        const value = values[i];
        return typeof value === "number" && isAfter({ row, value }) ? [{ row, value }] : [];
      });
      best = [...best, ...ranked].sort(byRank).slice(0, size);
    },
    best: (): readonly Ranked[] => best,
  };
}

/** The keys that come first in an order that has no index. */
type Ranking = ReturnType<typeof createRanking>;

function byRank(a: Ranked, b: Ranked): number {
  return a.value - b.value || (a.row.id > b.row.id ? -1 : 1);
}

/** Reads the identities of keys, those that are not known. */
async function readOwners(context: Reading, rows: readonly KeyRow[], known: Map<string, IdentityRow>): Promise<void> {
  const ids = rows.flatMap(({ identityId }) => identityId ?? []);
  await readRows(context, "identities", ids, known);
}

/**
 * What is left of the credits that each key draws on; null: unlimited.
 * @param identities which the identities of the keys join
 */
export async function balancesOf(
  context: ReadingAt,
  rows: readonly KeyRow[],
  identities = new Map<string, IdentityRow>(),
): Promise<readonly (number | null)[]> {
  await readOwners(context, rows, identities);
  const drawn = await drawnCredits(context, rows, identities);
  return drawn.map(({ available }) => available);
}
