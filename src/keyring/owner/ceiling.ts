/** What the owner of keys may give to a key of its own: the program sets it, and no request exceeds it. */
import { createGrants } from "../../access/permission-query.js";
import { badRequest, KeystileError, type ValidationProblem } from "../../contracts/errors.js";
import type { IdentityRow } from "../../contracts/store.js";
import type { KeyCreditsData, RatelimitRequest, Refill } from "../../contracts/types.js";
import { type Check, checkOptions, integer, narrowing } from "../../lib/check-options.js";
import { createKey } from "../keys/create-key.js";
import { hasSameDays } from "../keys/credit-change.js";
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
   * The most credits and the most refill of a new key, and what it gets unless the request asks for less: `remaining`
   * 0…2^53 − 1, a refill of the same days and at most this amount. Each key then has a balance of its own, which caps
   * what it takes of the credits of the owner's identity, if that has some. Absent: no request may ask for a balance;
   * keys draw on the credits of the owner's identity, and are unlimited while it has none.
   */
  readonly credits?: { readonly remaining: number; readonly refill?: Refill };
  /** True: no key is made while the owner's identity has no credits for it to draw on. Default false. */
  readonly identity?: boolean;
  /**
   * Limits of every new key, at most 50. A request may ask for fewer tokens or longer windows, and names no others,
   * since a key's own limit takes the place of its identity's. Its `autoApply` holds, whatever the request says.
   * Default none.
   */
  readonly ratelimits?: readonly RatelimitRequest[];
  /**
   * The longest life of a key, milliseconds, 1_000…4_102_444_800_000, and what it gets unless the request asks for
   * less.
   */
  readonly expiresIn?: number;
}

const DEFAULT_KEYS = 10;

/** A part of a request to create a key, by the rules of such a request. */
const partOfKey =
  (name: "permissions" | "ratelimits" | "credits"): Check =>
  (value, path) => {
    const problems: ValidationProblem[] = [];
    if (validate(createKey.schema, { apiId: "api", [name]: value }, "body", problems) !== undefined) return;
    const { location, message } = problems[0] as ValidationProblem;
    throw new TypeError(`${location.replace(`body.${name}`, path)} ${message}`);
  };

const CEILING = {
  keys: narrowing(integer(1, 1_000)),
  permissions: narrowing(partOfKey("permissions")),
  credits: narrowing((value, path) => {
    partOfKey("credits")(value, path);
    if ((value as KeyCreditsData).remaining === null) throw new TypeError(`${path}.remaining must be an integer`);
  }),
  identity: narrowing((value, path) => {
    if (typeof value !== "boolean") throw new TypeError(`${path} must be true or false`);
  }),
  ratelimits: narrowing(partOfKey("ratelimits")),
  expiresIn: narrowing(integer(1_000, MAX_TIME)),
} as const satisfies Record<keyof OwnerCeiling, Check>;

/** The parts of a request that a ceiling bounds. */
type Bounded = Pick<CreateKeyRequestBody, "permissions" | "credits" | "ratelimits" | "expires" | "expiresIn">;

/** @throws TypeError or RangeError naming the option */
export function createCeiling(given: OwnerCeiling) {
  const own = checkOptions(given, CEILING, "options.ceiling");
  const { keys = DEFAULT_KEYS, identity = false, expiresIn } = own;
  const credits = own.credits && structuredClone(own.credits);
  // Copied: the program may change its lists later.
  const permissions = createGrants([...(own.permissions ?? [])]);
  const ratelimits = (own.ratelimits ?? []).map((limit) => ({ ...limit }));
  return {
    keys,
    /**
     * The request with what it leaves out.
     * @throws KeystileError BAD_REQUEST with all that exceeds the ceiling
     */
    apply(request: Bounded, now: number): Bounded {
      const problems: ValidationProblem[] = [];
      const exceeds = (location: string, message = "exceeds what the owner may give") =>
        void problems.push({ location: `body.${location}`, message });
      request.permissions?.forEach((name, i) => {
        if (!permissions.covers(name)) exceeds(`permissions[${i}]`);
      });
      const { credits: wanted } = request;
      if (wanted !== undefined && credits === undefined) exceeds("credits");
      else if (wanted !== undefined && credits !== undefined) {
        // None is unlimited, whatever the owner's identity has.
        if ((wanted.remaining ?? Infinity) > credits.remaining) exceeds("credits.remaining");
        if (wanted.refill !== undefined && !isWithin(wanted.refill, credits.refill)) exceeds("credits.refill");
      }
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
        ...((credits ?? wanted) !== undefined && { credits: { ...credits, ...(wanted as KeyCreditsData) } }),
        ratelimits: ratelimits.map((most) => {
          const { limit, duration } = asked.find(({ name }) => name === most.name) ?? most;
          return { ...most, limit, duration };
        }),
        ...expiryWithin(request, expiresIn),
      };
    },
    /**
     * @param owner as it is when the key is written
     * @throws KeystileError CONFLICT: the owner has no credits, and its keys are to draw on them
     */
    requireSource({ hasCredits = false }: IdentityRow): void {
      if (identity && !hasCredits)
        throw new KeystileError("CONFLICT", "the owner has no credits to draw on; give its identity some first");
    },
  };
}

/** Whether a refill is on the same days, adds no more, and lets no more of the balance stay. */
function isWithin(asked: Refill, most: Refill | undefined): boolean {
  if (most === undefined || !hasSameDays(asked, most) || asked.amount > most.amount) return false;
  return most.rollover === undefined || (asked.rollover ?? Infinity) <= most.rollover;
}

function expiryWithin(
  { expires, expiresIn }: Bounded,
  most: number | undefined,
): Pick<Bounded, "expires" | "expiresIn"> {
  if (expires !== undefined) return { expires, ...(expiresIn !== undefined && { expiresIn }) };
  const lasting = expiresIn ?? most;
  return lasting === undefined ? {} : { expiresIn: lasting };
}
