/**
 * What earlier guards of a request have taken, so that a second guard takes only the difference.
 *
 * Why remembered beside the request: guards of frameworks such as Express do not know of each other.
 */
import type {
  KeysVerifyKeyRatelimit,
  V2KeysVerifyKeyRequestBody,
  V2KeysVerifyKeyResponseData,
} from "../contracts/types.js";
import type { ResolvedRequirement } from "./requirement.js";

/** What was taken for one request from one key. */
interface Session {
  readonly verifier: object;
  readonly key: string;
  /** Credits. */
  cost: number;
  /** Tokens by {@link limitKey}. */
  readonly tokens: Map<string, number>;
  /** Automatic limits that were taken. */
  readonly automatic: Set<string>;
}

const sessions = new WeakMap<object, Session[]>();

function find(memory: object, verifier: object, key: string): Session | undefined {
  return sessions.get(memory)?.find((session) => session.verifier === verifier && session.key === key);
}

/** An override is a limit of its own: what was taken at another size says nothing of whether it fits here. */
function limitKey({ name, limit, duration }: KeysVerifyKeyRatelimit): string {
  return JSON.stringify([name, limit, duration]);
}

/**
 * The verification request for a requirement, less what was taken before: limits that were taken are named at cost 0.
 * @param memory the object that stands for the request
 */
export function remainingRequest(
  memory: object,
  verifier: object,
  key: string,
  { permissions, cost, tags, ratelimits }: ResolvedRequirement,
): V2KeysVerifyKeyRequestBody {
  const session = find(memory, verifier, key);
  if (session === undefined) return { key, permissions, credits: { cost }, tags, ratelimits };
  const taken = new Map(session.tokens);
  const rest = ratelimits.map((limit) => {
    const { cost: wanted } = limit;
    const already = Math.min(wanted, taken.get(limitKey(limit)) ?? 0);
    taken.set(limitKey(limit), (taken.get(limitKey(limit)) ?? 0) - already);
    return { ...limit, cost: wanted - already };
  });
  const named = new Set(ratelimits.map(({ name }) => name));
  const automatic = [...session.automatic].filter((name) => !named.has(name)).map((name) => ({ name, cost: 0 }));
  return {
    key,
    permissions,
    credits: { cost: Math.max(0, cost - session.cost) },
    tags,
    ratelimits: [...automatic, ...rest],
  };
}

/** Remembers what a verification that passed has taken. */
export function remember(
  memory: object,
  verifier: object,
  { key, credits, ratelimits = [] }: V2KeysVerifyKeyRequestBody,
  result: V2KeysVerifyKeyResponseData,
): void {
  let session = find(memory, verifier, key);
  if (session === undefined) {
    session = { verifier, key, cost: 0, tokens: new Map(), automatic: new Set() };
    sessions.set(memory, [...(sessions.get(memory) ?? []), session]);
  }
  const { tokens, automatic } = session;
  const add = (limit: KeysVerifyKeyRatelimit) =>
    tokens.set(limitKey(limit), (tokens.get(limitKey(limit)) ?? 0) + (limit.cost ?? 1));
  session.cost += credits?.cost ?? 1;
  ratelimits.forEach(add);
  for (const { name, autoApply } of result.ratelimits ?? []) {
    if (!autoApply || automatic.has(name)) continue;
    automatic.add(name);
    if (!ratelimits.some((limit) => limit.name === name)) add({ name });
  }
}

/** Whether something was remembered of a request. */
export function isRemembered(memory: object): boolean {
  return sessions.has(memory);
}

/** Forgets a request that has ended. */
export function forget(memory: object): void {
  sessions.delete(memory);
}
