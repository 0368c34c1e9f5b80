/** Words that src does not use: each had a plainer one of the field in its place. */
import type { Source } from "./source.js";

/** Names of code, whole or as the first word of a longer one, each with what to say instead. */
const NAMES: readonly (readonly [name: RegExp, instead: string])[] = [
  [/^(create)?[Mm]oulds?$/, "KeyPolicy, internPolicies"],
  [/^(Means|Engine)$/, "VerifyDeps"],
  [/^Holdings$/, "GrantSet, or whose rows they are"],
  [/^lone(Id|Limit)?$/, "only…"],
  [/^(rowOne|rowTwo)$/, "h0, h1"],
  [
    /^(Touchable|TextTag|TagTable|Drawers|Shelf|plainShelf|HotRow|twoRows)$/,
    "the words of caches: slot, tier, backend",
  ],
  [/^(LATELY|wasSeen|believed|whatIsTrue)$/, "seenRecently, fresh, current"],
  [/^(catchUp|askInTime)$/, "pollChanges, poll"],
  [/^(told|hasTold|tellAll)$/, "notified"],
  [/^(LeaseBook|LeaseKeeper|takeHeld|IN_HAND|BEYOND)$/, "Lease, LeaseManager, take"],
  [/^(strain|homeless)$/, "utilization, rejectedForCapacity"],
  [/^(MOST|LEAST|FEW)(_|$)/, "MAX_… or MIN_… with a noun"],
  [/(^p|P)atiently$/, "…WithRetry"],
  [/^(createPace|Pace|isAlone|saveAlone|carryOver)$/, "group commit, compareAndSet, checkpoint"],
  [/^(OpenBalance|moveOn|SmallRows|RowMemory)$/, "CachedBalance, mergeRecent, EntityTables, BoundedMap"],
  [/^(obey|gaveWay)$/, "handle, yielded"],
  [/^(CreditWish|requireHiddenKey|bodyAtHand)$/, "CreditPatch, requireKeyIncludingDeleted, bodyIfBuffered"],
  [/^(Desk|Circumstances|Fillers|harmless)$/, "ServiceContext, RequestContext, stripControlChars"],
  [/^LAST_(MOMENT|INSTANT)$/, "MAX_DATE_MS"],
  [/^[jJ]udged?($|[A-Z])/, "validate, evaluate, check"],
  [/^[rR]ooms?$|Room$/, "space, module"],
  [/^twins?$/, "reference"],
];

/** Words of comments, titles and messages: only those that have no other meaning here. */
const PROSE: readonly (readonly [words: RegExp, instead: string])[] = [
  [/\b[Rr]ooms?\b/, "space, module"],
  [/\bjudge[sd]?\b/i, "validates, evaluates, checks"],
  [/\bmould(s|ed)?\b/i, "policy"],
  [/\bstands? below\b/, "below"],
  [/\bknows no\b/, "what it does, not what it does not"],
  [/\b(ruling|trap|hostile)s? [A-G]?\d/i, "the rule itself: what it cites is not in the package"],
  [/\b[Aa]nswers the (balance|result|number|value)\b/, "returns"],
];

/** Every such word in code and texts, as `path says word: instead`. */
export function findWords(source: Pick<Source, "path" | "names">, text: string): string[] {
  const found: string[] = [];
  for (const name of source.names)
    for (const [pattern, instead] of NAMES)
      if (pattern.test(name)) found.push(`${source.path} says ${name}: ${instead}`);
  for (const [pattern, instead] of PROSE) {
    const word = pattern.exec(text)?.[0];
    if (word !== undefined) found.push(`${source.path} says "${word}": ${instead}`);
  }
  return found;
}
