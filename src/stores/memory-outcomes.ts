/** Counts of verifications in memory: store clause 28. */
import {
  type FlushOutcome,
  LEVELS,
  type OutcomeFlush,
  type OutcomeLevel,
  OUTCOMES,
  type OutcomeQuery,
  type OutcomeRow,
} from "../contracts/outcomes.js";
import type { KeyRef, Store } from "../contracts/store.js";
import type { MemoryCreditDays } from "./memory-credit-days.js";
import { accountsOf, entriesOf, needsKeys, OTHER_TAGS, type OutcomeEntry, tooLarge } from "./outcome-entries.js";

type OutcomeMethods = Pick<Store, "countOutcomes" | "readOutcomes" | "readCreditDays" | "pruneOutcomes">;

const DIMENSIONS = ["apiId", "keyId", "externalId"] as const;

export function createMemoryOutcomes(creditDays: MemoryCreditDays): OutcomeMethods & { hasCounted(): boolean } {
  const flushes = new Map<string, number>();
  /** By level, subject, time and tags. */
  const levels = {
    minute: new Map<string, OutcomeEntry>(),
    hour: new Map<string, OutcomeEntry>(),
    day: new Map<string, OutcomeEntry>(),
  } satisfies Record<OutcomeLevel, Map<string, OutcomeEntry>>;
  /** By workspace. */
  const tagSets = new Map<string, Set<string>>();

  /** The tags themselves, unless the workspace has as many sets as it may. */
  const keptTags = ({ of: { workspaceId }, tags }: OutcomeEntry, maxTagSets: number): string => {
    let sets = tagSets.get(workspaceId);
    if (sets === undefined) tagSets.set(workspaceId, (sets = new Set()));
    if (!sets.has(tags) && sets.size >= maxTagSets) return OTHER_TAGS;
    sets.add(tags);
    return tags;
  };
  const add = (level: OutcomeLevel, entry: OutcomeEntry, maxTagSets: number): void => {
    const { bucket, of, sums } = entry;
    const { workspaceId, apiId, keyId, externalId, account, isTotal } = of;
    const tags = keptTags(entry, maxTagSets);
    const id = JSON.stringify([bucket, workspaceId, apiId, keyId, externalId, account, isTotal, tags]);
    const found = levels[level].get(id);
    if (found === undefined) levels[level].set(id, { ...entry, tags, sums: [...sums] });
    else for (let i = 0; i < sums.length; i++) (found.sums[i] as number) += sums[i] as number;
  };
  const count = ({ source, seq, at, cells, maxTagSets }: OutcomeFlush): FlushOutcome => {
    const last = flushes.get(source) ?? 0;
    if (seq !== last + 1) return seq <= last ? "repeated" : "gap";
    flushes.set(source, seq);
    for (const level of ["minute", "hour", "day"] as const)
      for (const entry of entriesOf(cells, level)) add(level, entry, maxTagSets);
    creditDays.keep(accountsOf(cells), at);
    return "counted";
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
    readCreditDays(query) {
      const named = new Set<KeyRef>();
      for (const { of } of levels.day.values())
        if (of.workspaceId === query.workspaceId && of.keyId === query.keyId && of.account !== undefined)
          named.add(of.account);
      return creditDays.read(query, named);
    },
    pruneOutcomes(level, before, most) {
      let removed = 0;
      for (const [id, { bucket }] of levels[level]) {
        if (bucket * LEVELS[level] >= before) continue;
        if (removed === most) return removed;
        levels[level].delete(id);
        removed++;
      }
      return removed;
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
