/** Counts of verifications in memory: store clause 28. */
import {
  type FlushResult,
  LEVELS,
  type OutcomeFlush,
  type OutcomeLevel,
  OUTCOMES,
  type OutcomeQuery,
  type OutcomeRow,
} from "../contracts/outcomes.js";
import type { KeyRef, Store } from "../contracts/store.js";
import { deepFreeze } from "../lib/deep-freeze.js";
import type { MemoryCreditDays } from "./memory-credit-days.js";
import {
  accountsOf,
  DAY,
  entriesOf,
  FORGOTTEN_KEYS,
  lastDayOf,
  lastRefusals,
  needsKeys,
  NO_TAGS,
  OTHER_TAGS,
  type OutcomeEntry,
  REFUSED_KEYS,
  refusedId,
  type RefusedKey,
  refusedIn,
  tagTexts,
  tooLarge,
} from "./outcome-entries.js";

type OutcomeMethods = Pick<
  Store,
  "countOutcomes" | "readOutcomes" | "readCreditDays" | "pruneOutcomes" | "readRefusals"
>;

const LEVEL_NAMES = Object.keys(LEVELS) as readonly OutcomeLevel[];
const DIMENSIONS = ["apiId", "keyId", "externalId"] as const;

/** What the store asks of the counts. */
interface Counted extends OutcomeMethods {
  hasCounted(): boolean;
  /** Removes the refusals of a key whose row is removed. */
  forgetKey(keyId: string): void;
}

export function createMemoryOutcomes(creditDays: MemoryCreditDays): Counted {
  const flushes = new Map<string, number>();
  /** By level, subject, time and tags. */
  const levels = {
    minute: new Map<string, OutcomeEntry>(),
    hour: new Map<string, OutcomeEntry>(),
    day: new Map<string, OutcomeEntry>(),
  } satisfies Record<OutcomeLevel, Map<string, OutcomeEntry>>;
  /** The last day on which each set was counted, by workspace. */
  const tagSets = new Map<string, Map<string, number>>();

  /** Accounts that a key was counted with, by workspace and key: for as long as they have totals. */
  const accountsOfKeys = new Map<string, Set<KeyRef>>();

  const refused = new Map<string, RefusedKey>();
  const put = (key: RefusedKey): void =>
    void refused.set(refusedId(key), deepFreeze(structuredClone({ ...key, time: key.refusals[0]!.time })));
  const keepRefusals = (key: RefusedKey): void => {
    put({ ...key, refusals: lastRefusals(key.refusals, refused.get(refusedId(key))?.refusals) });
    if (refused.size <= REFUSED_KEYS) return;
    const held = new Map<string, RefusedKey[]>();
    for (const one of refused.values()) held.set(one.workspaceId, [...(held.get(one.workspaceId) ?? []), one]);
    const largest = [...held.values()].reduce((most, some) => (some.length > most.length ? some : most));
    const byAge = largest.sort((a, b) => a.time - b.time).slice(0, FORGOTTEN_KEYS);
    for (const key of byAge) refused.delete(refusedId(key));
  };

  /** The tags themselves, unless the workspace has as many sets as it may. */
  const keptTags = (workspaceId: string, tags: string, most: number, day: number): string => {
    if (tags === NO_TAGS || tags === OTHER_TAGS) return tags;
    let sets = tagSets.get(workspaceId);
    if (sets === undefined) tagSets.set(workspaceId, (sets = new Map<string, number>()));
    if (!sets.has(tags) && sets.size >= most) return OTHER_TAGS;
    sets.set(tags, Math.max(day, sets.get(tags) ?? 0));
    return tags;
  };
  const add = (level: OutcomeLevel, entry: OutcomeEntry): void => {
    const { bucket, of, sums, tags } = entry;
    const { workspaceId, apiId, keyId, externalId, account, isTotal } = of;
    const id = JSON.stringify([bucket, workspaceId, apiId, keyId, externalId, account, isTotal, tags]);
    const found = levels[level].get(id);
    if (found === undefined) levels[level].set(id, { ...entry, sums: [...sums] });
    else for (let i = 0; i < sums.length; i++) (found.sums[i] as number) += sums[i] as number;
  };
  const count = (flush: OutcomeFlush): FlushResult => {
    const { source, seq, at, cells, maxTagSets } = flush;
    const last = flushes.get(source) ?? 0;
    if (seq !== last + 1) return { outcome: seq <= last ? "repeated" : "gap", folded: [] };
    flushes.set(source, seq);
    const day = lastDayOf(flush);
    const given = tagTexts(cells);
    const texts = cells.map(({ workspaceId }, i) => keptTags(workspaceId, given[i] as string, maxTagSets, day));
    for (const level of LEVEL_NAMES) for (const entry of entriesOf(cells, texts, level)) add(level, entry);
    creditDays.keep(accountsOf(cells), at);
    refusedIn(cells).forEach(keepRefusals);
    for (const { workspaceId, keyId, account } of cells) {
      const id = `${workspaceId} ${keyId}`;
      if (account !== undefined) accountsOfKeys.set(id, (accountsOfKeys.get(id) ?? new Set()).add(account));
    }
    return { outcome: "counted", folded: texts.flatMap((text, i) => (text === given[i] ? [] : [i])) };
  };
  /** Removes what no count names any more. */
  const pruneUnnamed = (before: number, most: number): number => {
    let since = Math.floor(before / DAY);
    for (const level of LEVEL_NAMES)
      for (const { bucket } of levels[level].values())
        since = Math.min(since, Math.floor((bucket * LEVELS[level]) / DAY));
    let removed = 0;
    for (const [workspaceId, sets] of tagSets) {
      for (const [tags, day] of sets) if (day < since && removed < most && sets.delete(tags)) removed++;
      if (sets.size === 0) tagSets.delete(workspaceId);
    }
    const ended = creditDays.prune(since * DAY, most);
    for (const [id, accounts] of accountsOfKeys) {
      for (const account of accounts) if (!creditDays.has(account)) accounts.delete(account);
      if (accounts.size === 0) accountsOfKeys.delete(id);
    }
    return Math.max(removed, ended);
  };
  const matches = (entry: OutcomeEntry, query: OutcomeQuery): boolean => {
    const { level, workspaceId, from, to, apiIds, keyIds, externalIds, part } = query;
    const time = entry.bucket * LEVELS[level];
    return (
      entry.of.workspaceId === workspaceId &&
      (entry.of.isTotal === true) !== needsKeys(query) &&
      time >= from &&
      time < to &&
      (part === undefined || numberOf(entry.of) % part.of === part.at) &&
      (apiIds?.includes(entry.of.apiId) ?? true) &&
      (keyIds?.includes(entry.of.keyId) ?? true) &&
      (externalIds?.includes(entry.of.externalId) ?? true)
    );
  };
  return {
    hasCounted: () => flushes.size > 0,
    countOutcomes: count,
    readOutcomes(query) {
      const found = [...levels[query.level].values()].filter((entry) => matches(entry, query));
      if (found.length > query.maxRows) throw tooLarge(query.maxRows);
      const groups = new Map<string, OutcomeRow & { readonly counts: number[]; spent: number; rows: number }>();
      for (const entry of found) {
        const dimensions = dimensionsOf(entry, query);
        const id = JSON.stringify(dimensions);
        let group = groups.get(id);
        if (group === undefined)
          groups.set(id, (group = { ...dimensions, counts: OUTCOMES.map(() => 0), spent: 0, rows: 0 }));
        for (let i = 0; i < OUTCOMES.length; i++) (group.counts[i] as number) += entry.sums[i] as number;
        group.spent += entry.sums[OUTCOMES.length] as number;
        group.rows++;
      }
      return [...groups.values()];
    },
    readCreditDays: (query) =>
      creditDays.read(query, accountsOfKeys.get(`${query.workspaceId} ${query.keyId}`) ?? new Set()),
    readRefusals: (query) => [...(refused.get(refusedId(query))?.refusals ?? [])],
    forgetKey(keyId) {
      for (const key of refused.values()) if (key.keyId === keyId) refused.delete(refusedId(key));
    },
    pruneOutcomes(level, before, most) {
      let removed = 0;
      for (const key of level === "hour" ? refused.values() : []) {
        if (removed === most) break;
        const refusals = key.refusals.filter(({ time }) => time >= before);
        if (refusals.length === key.refusals.length) continue;
        if (refusals.length > 0) put({ ...key, refusals });
        else refused.delete(refusedId(key));
        removed++;
      }
      for (const [id, { bucket }] of levels[level]) {
        if (bucket * LEVELS[level] >= before) continue;
        if (removed === most) return removed;
        levels[level].delete(id);
        removed++;
      }
      return level === "day" ? Math.max(removed, pruneUnnamed(before, most)) : removed;
    },
  };
}

function dimensionsOf(entry: OutcomeEntry, { by, level }: OutcomeQuery): Omit<OutcomeRow, "counts" | "spent" | "rows"> {
  return {
    ...(by.includes("time") && { time: entry.bucket * LEVELS[level] }),
    ...Object.fromEntries(DIMENSIONS.filter((name) => by.includes(name)).map((name) => [name, entry.of[name]])),
    ...(by.includes("tags") && { tags: JSON.parse(entry.tags) as string[] }),
  };
}

/** The same for each key and API: the parts are to be about as large as each other. */
function numberOf({ keyId, apiId }: OutcomeEntry["of"]): number {
  let number = 0;
  for (const character of keyId + apiId) number = (number * 31 + (character.codePointAt(0) as number)) % 1_000_003;
  return number;
}
