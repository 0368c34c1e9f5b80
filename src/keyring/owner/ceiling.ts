/** What the owner of keys may give to a key of its own: the program sets it, and no request exceeds it. */
import { createGrants } from "../../access/permission-query.js";
import { badRequest, type ValidationProblem } from "../../contracts/errors.js";
import type { RatelimitRequest } from "../../contracts/types.js";
import { type Check, checkOptions, integer } from "../../lib/check-options.js";
import * as schemas from "../schemas/keys.js";
import { MAX_TIME } from "../schemas/primitives.js";
import { validate } from "../schemas/parse.js";
import type { CreateKeyRequestBody } from "../schemas/requests.js";

/** The most that an owner may have and give; all have defaults. */
export interface OwnerCeiling {
  /**
   * Keys at a time, 1…1_000, default 10: those that are neither revoked nor expired. A key that was replaced counts
   * with its successor as one.
   */
  readonly keys?: number;
  /** Permissions that it may give, wildcards allowed, at most 1_000; default none. A wildcard covers what it grants. */
  readonly permissions?: readonly string[];
  /**
   * The most credits of a new key, 0…2^53 − 1, and what it gets unless the request asks for less. Absent: unlimited.
   * Each key has a balance of its own: what all keys of an owner may use together belongs in limits of its identity. A
   * request with a refill is refused.
   */
  readonly credits?: number;
  /**
   * Limits of every new key, at most 50. A request may ask for fewer tokens or longer windows, and names no others,
   * since a key's own limit takes the place of its identity's. Its `autoApply` holds, whatever the request says.
   * Default none.
   */
  readonly ratelimits?: readonly RatelimitRequest[];
  /**
   * The longest life of a key, milliseconds, 1…4_102_444_800_000, and what it gets unless the request asks for less.
   */
  readonly expiresIn?: number;
}

const DEFAULT_KEYS = 10;

/** A part of a request to create a key, by the rules of such a request. */
const partOfKey =
  (name: "permissions" | "ratelimits"): Check =>
  (value, path) => {
    const problems: ValidationProblem[] = [];
    if (validate(schemas.createKey, { apiId: "api", [name]: value }, "body", problems) !== undefined) return;
    const { location, message } = problems[0] as ValidationProblem;
    throw new TypeError(`${location.replace(`body.${name}`, path)} ${message}`);
  };

const CEILING = {
  keys: integer(1, 1_000),
  permissions: partOfKey("permissions"),
  credits: integer(0, Number.MAX_SAFE_INTEGER),
  ratelimits: partOfKey("ratelimits"),
  expiresIn: integer(1, MAX_TIME),
} as const satisfies Record<keyof OwnerCeiling, Check>;

/** The parts of a request that a ceiling bounds. */
type Bounded = Pick<CreateKeyRequestBody, "permissions" | "credits" | "ratelimits" | "expires" | "expiresIn">;

/** Applies a ceiling to requests. */
export interface Ceiling {
  readonly keys: number;
  /**
   * The request with what it leaves out.
   * @throws KeystileError BAD_REQUEST with all that exceeds the ceiling
   */
  apply(request: Bounded, now: number): Bounded;
}

/** @throws TypeError or RangeError naming the option */
export function createCeiling(given: OwnerCeiling): Ceiling {
  const own = checkOptions(given, CEILING, "options.ceiling");
  const { keys = DEFAULT_KEYS, credits, expiresIn } = own;
  // Copied: the program may change its lists later.
  const permissions = createGrants([...(own.permissions ?? [])]);
  const ratelimits = (own.ratelimits ?? []).map((limit) => ({ ...limit }));
  return {
    keys,
    apply(request, now) {
      const problems: ValidationProblem[] = [];
      const exceeds = (location: string, message = "exceeds what the owner may give") =>
        void problems.push({ location: `body.${location}`, message });
      request.permissions?.forEach((name, i) => {
        if (!permissions.covers(name)) exceeds(`permissions[${i}]`);
      });
      const { remaining = null } = request.credits ?? {};
      if (request.credits !== undefined && credits !== undefined && (remaining === null || remaining > credits))
        exceeds("credits.remaining");
      if (request.credits?.refill !== undefined) exceeds("credits.refill");
      const last = expiresIn === undefined ? undefined : now + expiresIn;
      if (expiresIn !== undefined && (request.expiresIn ?? 0) > expiresIn) exceeds("expiresIn");
      if (last !== undefined && (request.expires ?? 0) > last) exceeds("expires");
      const asked = request.ratelimits ?? [];
      asked.forEach((limit, i) => {
        const most = ratelimits.find(({ name }) => name === limit.name);
        if (most === undefined) return exceeds(`ratelimits[${i}].name`, "is no limit of this owner's keys");
        if (limit.limit > most.limit) exceeds(`ratelimits[${i}].limit`);
        if (limit.duration < most.duration) exceeds(`ratelimits[${i}].duration`, "is shorter than the owner's window");
      });
      if (problems.length > 0) throw badRequest(problems);
      return {
        ...(request.permissions !== undefined && { permissions: request.permissions }),
        ...(credits !== undefined && { credits: { remaining: request.credits?.remaining ?? credits } }),
        ...(credits === undefined && request.credits !== undefined && { credits: request.credits }),
        ratelimits: ratelimits.map((most) => {
          const { limit, duration } = asked.find(({ name }) => name === most.name) ?? most;
          return { ...most, limit, duration };
        }),
        ...expiryWithin(request, expiresIn),
      };
    },
  };
}

function expiryWithin(
  { expires, expiresIn }: Bounded,
  most: number | undefined,
): Pick<Bounded, "expires" | "expiresIn"> {
  if (expires !== undefined) return { expires, ...(expiresIn !== undefined && { expiresIn }) };
  const lasting = expiresIn ?? most;
  return lasting === undefined ? {} : { expiresIn: lasting };
}
