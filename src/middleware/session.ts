/**
 * What earlier guards of a request have taken, so that a second guard takes only the difference.
 *
 * Why remembered beside the request: guards of frameworks such as Express do not know of each other.
 */
import { isKeystileError } from "../contracts/errors.js";
import type {
  KeysVerifyKeyRatelimit,
  V2KeysVerifyKeyRequestBody,
  V2KeysVerifyKeyResponseData,
} from "../contracts/types.js";
import type { Mutable } from "../lib/mutable.js";
import type { ResolvedRequirement } from "./requirement.js";
import type { Reserved } from "./reserved.js";

const NONE: readonly never[] = Object.freeze([]);

/** One verification that passed. */
interface Taking {
  readonly verifier: object;
  readonly request: V2KeysVerifyKeyRequestBody;
  readonly result: V2KeysVerifyKeyResponseData<unknown>;
  /** What it reserved; undefined: it took its cost. */
  readonly reserved: Reserved | undefined;
}

// oxlint-disable-next-line typescript/no-extraneous-class -- the base that makes `this` of a subclass any object
class Adopting {
  constructor(object: object) {
    return object;
  }
}

/**
 * The takings of a request, in a private field that is added to the object that stands for it: nobody else can see it,
 * in a log neither, and it goes with the object.
 *
 * Why not a WeakMap, which is the same from outside: an entry for each request took 5 of the 11 µs of a guard, most of
 * them in the garbage collector.
 */
class Takings extends Adopting {
  #list: readonly Taking[] = NONE;

  static of(memory: object): readonly Taking[] {
    return #list in memory ? memory.#list : NONE;
  }

  static set(memory: object, list: readonly Taking[]): void {
    (#list in memory ? memory : new Takings(memory)).#list = list;
  }
}

/** Whose headers a response has, in a private field as {@link Takings}. */
class Headed extends Adopting {
  #memory: object | undefined;

  static by(response: object, memory: object): boolean {
    const headed = #memory in response ? response : new Headed(response);
    return (headed.#memory ??= memory) === memory;
  }
}

/** Whether a response is the first that has headers of a guard, or has those of the same request. Notes whose it is. */
export function isHeadedFor(response: object, memory: object): boolean {
  return Headed.by(response, memory);
}

/** An override is a limit of its own: what was taken at another size says nothing of whether it fits here. */
function limitKey({ name, limit, duration }: KeysVerifyKeyRatelimit): string {
  return JSON.stringify([name, limit, duration]);
}

/**
 * The verification request for a requirement, less what was taken before: limits that were taken are named at cost 0.
 * @param memory the object that stands for the request
 * @param migrationId passed on as it is
 */
export function remainingRequest(
  memory: object,
  verifier: object,
  key: string,
  { permissions, cost, tags, ratelimits }: ResolvedRequirement,
  migrationId: string | undefined,
): V2KeysVerifyKeyRequestBody {
  const earlier = Takings.of(memory).filter((taking) => taking.verifier === verifier && taking.request.key === key);
  const limits = ratelimits.map(toLimit);
  if (earlier.length === 0)
    return asking(permissions, { key, credits: { cost }, tags, ratelimits: limits, migrationId });
  const tokens = tokensTaken(earlier);
  const rest = limits.map((limit) => {
    const left = tokens.get(limitKey(limit)) ?? 0;
    const already = Math.min(limit.cost, left);
    tokens.set(limitKey(limit), left - already);
    return { ...limit, cost: limit.cost - already };
  });
  const named = new Set(ratelimits.map(({ name }) => name));
  const automatic = earlier.flatMap(({ result }) => result.ratelimits ?? []).filter(({ autoApply }) => autoApply);
  const unnamed = new Set(automatic.map(({ name }) => name).filter((name) => !named.has(name)));
  const credits = earlier.reduce((sum, { request }) => sum + (request.credits?.cost ?? 1), 0);
  return asking(permissions, {
    key,
    credits: { cost: Math.max(0, cost - credits) },
    tags,
    ratelimits: [...[...unnamed].map((name) => ({ name, cost: 0 })), ...rest],
    migrationId,
  });
}

/** What narrows a request must not be undefined in it. */
function asking(permissions: string | undefined, rest: WholeRequirement): V2KeysVerifyKeyRequestBody {
  const request: Mutable<V2KeysVerifyKeyRequestBody> = rest;
  if (permissions !== undefined) request.permissions = permissions;
  return request;
}

function toLimit({ name, cost, limit, duration }: ResolvedRequirement["ratelimits"][number]) {
  return { name, cost, ...(limit !== undefined && { limit }), ...(duration !== undefined && { duration }) };
}

/**
 * The request without limits of earlier guards that the key no longer has: nothing is left to be taken of those, and to
 * name one is a 400 that takes nothing.
 * @param request as {@link remainingRequest} made it of the requirement
 * @param error with which the verifier rejected it
 * @returns undefined: the error is of another kind
 */
export function withoutRemovedLimits(
  request: V2KeysVerifyKeyRequestBody,
  { ratelimits: required }: ResolvedRequirement,
  error: unknown,
): V2KeysVerifyKeyRequestBody | undefined {
  const { ratelimits: named = [] } = request;
  const earlier = named.length - required.length;
  if (earlier === 0 || !isKeystileError(error)) return undefined;
  const faults = new Set(error.errors.map(({ location }) => location));
  // Those of the requirement come last; a name among them that no limit has is a mistake of the program.
  const ratelimits = named.filter((_, i) => i >= earlier || !faults.has(`body.ratelimits[${i}].name`));
  return ratelimits.length < named.length ? { ...request, ratelimits } : undefined;
}

/** Names every part of a requirement, so that the compiler misses one that is left out. */
type WholeRequirement = Omit<V2KeysVerifyKeyRequestBody, "permissions" | "ratelimits"> &
  Required<Pick<V2KeysVerifyKeyRequestBody, "ratelimits">> &
  Readonly<
    Record<"credits" | "migrationId" | Exclude<keyof ResolvedRequirement, "cost" | "permissions" | "reserves">, unknown>
  >;

/** Tokens by {@link limitKey}: of the limits that requests named, and one of each automatic limit that they did not. */
function tokensTaken(earlier: readonly Taking[]): Map<string, number> {
  const tokens = new Map<string, number>();
  const add = (limit: KeysVerifyKeyRatelimit) =>
    tokens.set(limitKey(limit), (tokens.get(limitKey(limit)) ?? 0) + (limit.cost ?? 1));
  for (const { request, result } of earlier) {
    const { ratelimits: named = [] } = request;
    named.forEach(add);
    for (const { name, autoApply } of result.ratelimits ?? [])
      if (autoApply && !named.some((limit) => limit.name === name)) add({ name });
  }
  return tokens;
}

/** Remembers what a verification that passed has taken. */
export function remember(
  memory: object,
  verifier: object,
  request: V2KeysVerifyKeyRequestBody,
  result: V2KeysVerifyKeyResponseData<unknown>,
  reserved: Reserved | undefined,
): void {
  Takings.set(memory, [...Takings.of(memory), { verifier, request, result, reserved }]);
}

/** What an earlier guard of a request has reserved of a key. */
export function reservedBefore(memory: object, verifier: object, key: string): Reserved | undefined {
  return Takings.of(memory).find(
    (taking) => taking.reserved && taking.verifier === verifier && taking.request.key === key,
  )?.reserved;
}

/** Whether something was remembered of a request. */
export function isRemembered(memory: object): boolean {
  return Takings.of(memory).length > 0;
}

/** Forgets a request that has ended. */
export function forget(memory: object): void {
  Takings.set(memory, NONE);
}
