/**
 * The last refusals of each key, with what decided, until they are written with the counts.
 *
 * Why bounded by keys: whoever makes a million refusals a minute, of many keys, holds {@link MAX_KEYS} lists of
 * {@link MAX_REFUSALS}, and as many are written in an interval. The refusals of further keys are counted alone.
 */
import type { CachedKey } from "../cache/cached-key.js";
import { MAX_REFUSALS, type Refusal, type RefusalsQuery } from "../contracts/outcomes.js";
import type { Spend } from "../contracts/store.js";
import type { VerificationCode } from "../contracts/types.js";
import type { Mutable } from "../lib/mutable.js";
import type { LimitedCall } from "../ratelimit/take-limits.js";
import { redact } from "./outcome-events.js";
import type { VerificationRequest } from "./request.js";

/** Keys whose refusals one interval holds, over all workspaces. */
const MAX_KEYS = 200;
/** Characters that are kept of a query, of an address, and of all tags together. */
const MAX_TEXT = 256;
const MAX_ADDRESS = 64;

type Code = Refusal["code"];

/** @param code why a key that was found does not pass */
export function refusalOf(call: RefusedCall, key: CachedKey, code: VerificationCode): Refusal {
  const refusal = begin(call, call.spend, code as Code);
  DECIDED[code as Code]?.(refusal, call, key);
  return refusal;
}

/** Of a spend by id, for lack of credits. */
export function refusedSpend(call: Asked, spend: Spend, key: CachedKey): Refusal {
  const refusal = begin(call, spend, "USAGE_EXCEEDED");
  return { ...refusal, kind: "spend", ...(isOwners(spend, key) && { decidedBy: "identity" }) };
}

function isOwners(spend: Spend | undefined, { wallets, policy: { creditsFrom } }: CachedKey): boolean {
  return (wallets?.[spend?.least ?? 0]?.owner ?? creditsFrom) === "identity";
}

/** What a call asked for; `key` is empty where it had none. */
interface Asked extends Pick<VerificationRequest, "cost" | "tags" | "key"> {
  readonly now: number;
}
/** A verification that was refused. */
interface RefusedCall extends Asked, Pick<VerificationRequest, "permissions">, Pick<LimitedCall, "limits"> {
  readonly context: { readonly clientAddress: string | undefined };
  readonly spend: Spend | undefined;
}

function begin({ now, cost, tags, key }: Asked, spend: Spend | undefined, code: Code): Mutable<Refusal> {
  const refusal: Mutable<Refusal> = { time: now, code, cost };
  if (typeof spend?.remaining === "number") refusal.remaining = spend.remaining;
  const shown = redact(tags, key);
  if (shown.length > 0 && shown.join("").length <= MAX_TEXT) refusal.tags = shown;
  return refusal;
}

/** Adds what decided. */
type Decided = (refusal: Mutable<Refusal>, call: RefusedCall, key: CachedKey) => void;
const DECIDED: Readonly<Partial<Record<Code, Decided>>> = {
  EXPIRED(refusal, { now }, { expires }) {
    if (expires === undefined || now <= expires) refusal.decidedBy = "identity";
  },
  FORBIDDEN(refusal, { context: { clientAddress }, key: text }, { policy, rare }) {
    if (policy.parentDisabled) refusal.decidedBy = "api";
    else if (policy.ownerDisabled === true) refusal.decidedBy = "identity";
    else if (rare.allows?.(clientAddress) === false) refusal.address = cut(clientAddress ?? "", text, MAX_ADDRESS);
  },
  INSUFFICIENT_PERMISSIONS(refusal, { permissions = "", key: text }) {
    refusal.permissions = cut(permissions, text, MAX_TEXT);
  },
  RATE_LIMITED(refusal, { limits, key: text }) {
    const found = limits?.find(({ exceeded }) => exceeded);
    if (found === undefined) return;
    const { name, limit, duration, remaining, reset } = found;
    refusal.ratelimit = { name: cut(name, text, MAX_TEXT), limit, duration, remaining, reset };
  },
  USAGE_EXCEEDED(refusal, { spend }, key) {
    if (isOwners(spend, key)) refusal.decidedBy = "identity";
  },
};

function cut(text: string, key: string, most: number): string {
  const [safe] = redact([text], key) as [string];
  return safe.length <= most ? safe : `${safe.slice(0, most - 1).toWellFormed()}…`;
}

/** A key's id may be used again in another workspace. */
function idOf({ keyId, workspaceId }: RefusalsQuery): string {
  return `${keyId} ${workspaceId}`;
}

/** Once it is full, each workspace has an equal part: one below it takes the place of a key of the largest. */
export function createRefusalLog(maxKeys = MAX_KEYS) {
  const keys = new Map<string, Refusal[]>();
  const workspaces = new Map<string, string[]>();
  const admits = (own: readonly string[]): boolean => {
    if (keys.size < maxKeys) return true;
    if (own.length >= Math.floor(maxKeys / workspaces.size)) return false;
    let largest: string[] = [];
    for (const held of workspaces.values()) if (held.length > largest.length) largest = held;
    keys.delete(largest.shift() as string);
    return true;
  };
  return {
    note(of: RefusalsQuery, refusal: Refusal): void {
      const { workspaceId } = of;
      const id = idOf(of);
      const known = keys.get(id);
      if (known !== undefined) {
        if (known.length === MAX_REFUSALS) known.shift();
        known.push(refusal);
        return;
      }
      const own = workspaces.get(workspaceId) ?? [];
      if (!admits(own)) return;
      own.push(id);
      workspaces.set(workspaceId, own);
      keys.set(id, [refusal]);
    },
    /** Those of a key, newest first, once. */
    take(of: RefusalsQuery): readonly Refusal[] | undefined {
      const id = idOf(of);
      const found = keys.get(id);
      keys.delete(id);
      return found?.reverse();
    },
  };
}

/** Refusals of one interval. */
export type RefusalLog = ReturnType<typeof createRefusalLog>;
