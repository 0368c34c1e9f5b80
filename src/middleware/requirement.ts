/** What a route asks of a key: validated when the route is built, resolved and merged when a request comes. */
import { compileQuery } from "../access/permission-query.js";
import { isKeystileError } from "../contracts/errors.js";
import type { KeysVerifyKeyRatelimit, MaybePromise } from "../contracts/types.js";
import { callable, type Check, checkOptions, integer, narrowing } from "../lib/check-options.js";
import { explainShort } from "../lib/seconds.js";
import { readRequest, type VerificationRequest } from "../verify/request.js";
import { headerNames } from "../verify/verify-headers.js";

/** A value, or a function of the request that returns it. A function that throws ends the request with a 500. */
export type PerRequest<Request, T> = T | ((request: Request) => MaybePromise<T>);

/**
 * What a route asks of a key. Fixed values are validated when the route is built; a value of a function when a request
 * comes, and if it is not valid the client gets a 500 without the reason. `permissions` and `ratelimits` narrow what
 * passes: leave them out, or give a value. Undefined is a mistake, in an option as from a function.
 */
export interface KeyRequirement<Request> {
  /**
   * Permission query, such as `documents.read AND billing.view`, 1–1_000 code points; absent: no permission. A function
   * that puts text of the client into a query must allow plain names alone, or the client writes the query.
   */
  readonly permissions?: PerRequest<Request, string>;
  /** Credits to take, 0…1_000_000_000_000, default 1; without effect on keys with unlimited credits. */
  readonly cost?: PerRequest<Request, number | undefined>;
  /**
   * Credits to reserve in place of `cost`, for a call whose price is known afterwards, 1…1_000_000_000_000: the handler
   * settles them by `commit` of the verified key. Needs a verifier with `reserve`.
   */
  readonly reserve?: PerRequest<Request, number | undefined>;
  /** At most 20 labels for analytics, each 1–512 code points. */
  readonly tags?: PerRequest<Request, readonly string[] | undefined>;
  /**
   * Rate limits to check besides the automatic ones, at most 1_000. A name that the key or its identity does not have
   * needs `limit` and `duration`, in milliseconds; a fixed `duration` is 0 or 1_000 at least.
   */
  readonly ratelimits?: PerRequest<Request, readonly KeysVerifyKeyRatelimit[]>;
}

type Name = keyof KeyRequirement<never>;
/** A value that is no function. */
type Fixed<N extends Name> = Exclude<KeyRequirement<never>[N], (request: never) => unknown>;

/** The requirements of one request, after functions were called: valid parts of a verification request. */
export interface ResolvedRequirement extends Pick<VerificationRequest, Exclude<Name, "reserve">> {
  /** Whether the cost is reserved. */
  readonly reserves: boolean;
}

/** A requirement whose values are no functions. */
type FixedRequirement = { readonly [N in keyof KeyRequirement<never>]: Fixed<N> };

/** A function, or a fixed value that passes the check. */
const perRequest =
  (check: Check): Check =>
  (value, path) => {
    if (typeof value !== "function") check(value, path);
  };

/** A part of a verification request, by the rules of such a request. */
export const partOfRequest =
  (name: "permissions" | "tags" | "ratelimits" | "migrationId"): Check =>
  (value, path) => {
    try {
      const { permissions, ratelimits } = readRequest({ key: "-", [name]: value });
      if (permissions !== undefined) compileQuery(permissions);
      const short = ratelimits.map(({ duration }) => explainShort(duration)).find((fault) => fault !== undefined);
      if (short !== undefined) throw new TypeError(`${path}: each duration ${short.message}; ${short.fix}`);
    } catch (cause) {
      if (!isKeystileError(cause)) throw cause;
      throw new TypeError(cause.message.replace(`body.${name}`, path), { cause });
    }
  };

/** The checks of {@link KeyRequirement}. */
export const REQUIREMENT_OPTIONS = {
  permissions: narrowing(perRequest(partOfRequest("permissions"))),
  cost: perRequest(integer(0, 1_000_000_000_000)),
  reserve: perRequest(integer(1, 1_000_000_000_000)),
  tags: perRequest(partOfRequest("tags")),
  ratelimits: narrowing(perRequest(partOfRequest("ratelimits"))),
} as const satisfies Record<Name, Check>;

const NAMES = Object.keys(REQUIREMENT_OPTIONS) as readonly Name[];

/** How the values of several requirements become one, in their order; each list has one value at least. */
const MERGES: { readonly [N in Name]-?: (values: readonly NonNullable<Fixed<N>>[]) => Fixed<N> } = {
  permissions: joinQueries,
  cost: (costs) => costs.at(-1),
  reserve: (costs) => costs.at(-1),
  tags: (lists) => lists.reduce((earlier, tags) => [...earlier, ...tags]),
  ratelimits: (lists) =>
    lists.reduce((earlier, limits) => [
      ...earlier.filter(({ name }) => !limits.some((limit) => limit.name === name)),
      ...limits,
    ]),
};

/** Requirements that {@link checkRequirement} returned: it validates none of them again. */
const checked = new WeakSet<object>();

/** A frozen copy. @throws TypeError or RangeError that names the option */
export function checkRequirement<Request>(given: KeyRequirement<Request>, path: string): KeyRequirement<Request> {
  if (checked.has(given)) return given;
  const requirement = Object.freeze(checkOptions(given, REQUIREMENT_OPTIONS, path));
  checked.add(requirement);
  return requirement;
}

/**
 * Calls the functions and merges: all queries must be satisfied, the last `reserve` counts, or else the last `cost`,
 * tags add up, and a limit takes the place of one of the same name in an earlier requirement.
 * @throws whatever a function throws; KeystileError BAD_REQUEST for values that are not valid, and
 *   PERMISSIONS_QUERY_SYNTAX if one of several queries does not parse
 */
export async function resolveRequirements<Request>(
  requirements: readonly KeyRequirement<Request>[],
  request: Request,
): Promise<ResolvedRequirement> {
  const fixed: FixedRequirement[] = [];
  for (const requirement of requirements) {
    if (isFixed(requirement)) {
      fixed.push(requirement);
      continue;
    }
    const values: Partial<Record<Name, unknown>> = {};
    for (const name of NAMES) {
      const value = await valueOf<Request, unknown>(requirement[name], request);
      if (value !== undefined) values[name] = value;
      else if (requirement[name] !== undefined && "narrows" in REQUIREMENT_OPTIONS[name])
        throw new TypeError(`the function ${name} of a guard returned undefined: it must return a value`);
    }
    fixed.push(values as FixedRequirement);
  }
  return mergeRequirements(fixed);
}

/** Whether a requirement is the same for every request. */
export function isFixed(requirement: KeyRequirement<never>): requirement is FixedRequirement {
  return !NAMES.some((name) => typeof requirement[name] === "function");
}

/** As {@link resolveRequirements}, of requirements without functions. */
export function mergeRequirements(requirements: readonly FixedRequirement[]): ResolvedRequirement {
  const merge = (name: Name): unknown => {
    const values = requirements.map((requirement): unknown => requirement[name]).filter((value) => value !== undefined);
    return values.length === 0 ? undefined : (MERGES[name] as (values: readonly unknown[]) => unknown)(values);
  };
  const merged = NAMES.map((name) => [name, merge(name)] as const).filter(([, value]) => value !== undefined);
  const { reserve, cost = 1, ...parts } = Object.fromEntries(merged) as FixedRequirement;
  if (reserve !== undefined && !(reserve > 0)) throw new RangeError("reserve must be an integer of at least 1");
  const request = readRequest({ key: "-", ...parts, credits: { cost: reserve ?? cost } });
  return { ...request, reserves: reserve !== undefined };
}

function valueOf<Request, T>(value: PerRequest<Request, T> | undefined, request: Request): MaybePromise<T | undefined> {
  return typeof value === "function" ? (value as (request: Request) => MaybePromise<T | undefined>)(request) : value;
}

/**
 * Each is parsed by itself first: a query such as `a) OR (b` must not become valid between the parentheses of others.
 */
function joinQueries(queries: readonly string[]): string | undefined {
  if (queries.length <= 1) return queries[0];
  for (const query of queries) compileQuery(query);
  return queries.map((query) => `(${query})`).join(" AND ");
}

/** A function, or a fixed list of header names. */
export const headerNamesOrFunction: Check = (value, path) => {
  if (typeof value === "function") return callable(value, path);
  if (!Array.isArray(value)) throw new TypeError(`${path} must be a function, or an array of header names`);
  headerNames(value, path);
};
