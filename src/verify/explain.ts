/**
 * A dry run of a verification: what each check finds, without taking anything. For administrators only.
 *
 * Why it runs the checks of `verify`: a second copy of them could drift. The limiter and the spender are replaced by
 * ones that only read.
 */
import type { LimitCheck, LimitVerdict } from "../contracts/limiter.js";
import type { CachedKey } from "../cache/cached-key.js";
import type { OwnedWallet, Spend } from "../contracts/store.js";
import type { V2KeysVerifyKeyRequestBody, VerifyKeyRatelimitData } from "../contracts/types.js";
import { compileQuery, namesInQuery, parseQuery } from "../access/permission-query.js";
import { badRequest, KeystileError } from "../contracts/errors.js";
import { inDrawOrder } from "../credits/wallet.js";
import type { CreditsSource } from "../lib/credits-source.js";
import type { Spender } from "../credits/spender.js";
import { type Check, checkOptions, narrowing, text } from "../lib/check-options.js";
import { hasLength, isObject } from "../lib/copy-json.js";
import { applyLimits } from "../ratelimit/applied-limits.js";
import type { LimitAnswer, LimitTaker } from "../ratelimit/fallback.js";
import { findDeletedKey, findKey, findKeyAgain, findKeyById } from "./find-key.js";
import { forgetFindings, GONE, type Verification, type VerifyDeps } from "./call.js";
import { readContext, type VerifyContext } from "./context.js";
import type { ExplainedAccount, ExplainedCheck } from "./explained-check.js";
import { planRequest } from "./request.js";
import { beginCall, CHECKS, isOutdated, MAX_RESTARTS } from "./verify-key.js";
import { depsOf, type Verifier } from "./verifier.js";

/** Reads from the call, after a check ran, what the explanation adds to the check's code and `passes`. */
type Finding<Code> = (
  call: Verification,
  key: CachedKey,
) => ExplainedCheck extends infer Explained
  ? Explained extends { readonly code: Code }
    ? Omit<Explained, "code" | "passes">
    : never
  : never;
type FindingsOf<Checks extends readonly { readonly code: ExplainedCheck["code"] }[]> = {
  readonly [I in keyof Checks]: Finding<Checks[I]["code"]>;
};

/** One for each check, in the order of {@link CHECKS}. */
const FINDINGS: FindingsOf<typeof CHECKS> = [
  () => ({}),
  (_, { expires, rare: { ownerExpires } }) => ({
    ...(expires !== undefined && { expires }),
    ...(ownerExpires !== undefined && { ownerExpires }),
  }),
  ({ context }, key) => ({
    parentDisabled: key.policy.parentDisabled,
    ownerDisabled: key.policy.ownerDisabled === true,
    addressAllowed: key.rare.allows?.(context.clientAddress) !== false,
  }),
  ({ permissions }, { policy: { grants } }) => {
    const names = permissions === undefined ? [] : namesInQuery(parseQuery(permissions));
    return {
      has: names.filter((name) => grants.covers(name)),
      missing: names.filter((name) => !grants.covers(name)),
    };
  },
  ({ limits, limitsNote, ratelimits }, key) => ({
    limits: applyLimits(key, ratelimits).map(({ cost }, i) => ({
      ...(limits?.[i] as VerifyKeyRatelimitData),
      cost,
    })),
    ...(limitsNote?.retryAfter !== undefined && { retryAfter: limitsNote.retryAfter }),
    degraded: limitsNote?.degraded === true,
  }),
  ({ cost, spend, now }, { policy, wallets = [] }) => ({
    cost,
    creditsFrom: policy.hasCredits && spend?.remaining !== null ? sourceOf(policy, wallets) : "none",
    ...(typeof spend?.remaining === "number" && { remaining: spend.remaining }),
    ...(spend?.least !== undefined && { decidedBy: wallets[spend.least]!.owner }),
    ...(wallets.length > 0 && { accounts: accountsOf(wallets, now, spend) }),
  }),
];

function sourceOf({ creditsFrom }: CachedKey["policy"], wallets: readonly OwnedWallet[]): CreditsSource {
  return wallets.length > 1 ? "both" : (creditsFrom ?? "key");
}

/** What is left of each account that pays for a call. */
function accountsOf(wallets: readonly OwnedWallet[], now: number, spend: Spend | undefined) {
  return wallets.flatMap(({ owner, accounts }, i) =>
    inDrawOrder(accounts, now).map(({ grantId, expires }, j): ExplainedAccount => ({
      owner,
      ...(grantId !== undefined && { grantId }),
      remaining: spend?.balances?.[i]?.[j] ?? null,
      ...(expires !== undefined && { expires }),
    })),
  );
}

/** The request to explain: as for `verify`, with the key's text or its id. */
export type ExplainRequest =
  | (V2KeysVerifyKeyRequestBody & { readonly keyId?: never })
  | (Omit<V2KeysVerifyKeyRequestBody, "key" | "migrationId"> & {
      /** 1–255 characters. Also finds a key that was imported and never verified. */
      readonly keyId: string;
      readonly key?: never;
    });

/** The context of the call to explain: as for `verify`. */
export type ExplainContext = Pick<VerifyContext, "clientAddress" | "apiId">;

/** What a verification would return now, and why. */
export interface Explanation {
  /** Whether `verify` would let the call pass. */
  readonly passes: boolean;
  /**
   * The code that `verify` would return otherwise: that of the first check that fails, or NOT_FOUND. Absent if it
   * passes.
   */
  readonly refusal?: ExplainedCheck["code"] | "NOT_FOUND";
  /** Absent with NOT_FOUND, unless the key is `deleted`. */
  readonly keyId?: string;
  /** Absent with NOT_FOUND, unless the key is `deleted`. */
  readonly apiId?: string;
  /** The key is NOT_FOUND because the key or its API is deleted. Absent: neither is, or there is no such key. */
  readonly deleted?: true;
  /**
   * When the key was deleted, Unix time in milliseconds. Absent: only its API was deleted, or the time was not
   * recorded.
   */
  readonly deletedAt?: number;
  /** Who deleted the key: the actor in the audit trail, or else the actor's kind. May be absent like `deletedAt`. */
  readonly deletedBy?: string;
  /** Every check in order; empty with NOT_FOUND. `verify` stops at the first check that fails, `explain` does not. */
  readonly checks: readonly ExplainedCheck[];
}

/** The dependencies of a verification that takes nothing, changes nothing and emits nothing. */
function dryRun(deps: VerifyDeps): VerifyDeps {
  return {
    ...deps,
    sources: { ...deps.sources, adopts: false },
    limiter: readingTaker(deps.limiter),
    spender: readingSpender(deps.spender),
    onOutcome: undefined,
    counter: undefined,
  };
}

/** Reads each bucket at cost 0, and compares its tokens with the call's costs for it, added up in order. */
function readingTaker(limiter: LimitTaker): LimitTaker {
  return {
    ...limiter,
    takeAt: undefined,
    async take(checks, now): Promise<LimitAnswer> {
      const { verdicts, degraded, shares } = await limiter.take(
        checks.map((check) => ({ ...check, cost: 0 })),
        now,
      );
      const costs = new Map<string, number>();
      const read = checks.map(({ bucket, cost }: LimitCheck, i): LimitVerdict => {
        const { remaining, reset } = verdicts[i] as LimitVerdict;
        const wanted = (costs.get(bucket) ?? 0) + cost;
        costs.set(bucket, wanted);
        return { exceeded: cost > 0 && wanted > remaining, remaining, reset };
      });
      const withCosts = shares?.map((share, i) => ({ ...share, cost: (checks[i] as LimitCheck).cost }));
      return { verdicts: read, degraded, ...(withCosts !== undefined && { shares: withCosts }) };
    },
  };
}

function readingSpender(spender: Spender): Spender {
  return {
    ...spender,
    async spend(target, cost, now) {
      const read = await spender.spend(target, 0, now);
      if (read === undefined || read.stale === true) return read;
      return { ...read, ok: read.ok && (read.remaining === null || read.remaining >= cost) };
    },
  };
}

/**
 * A validated call, and how to find its key: with the cache, or from the store. With `keyId` if the request names the
 * key by its id.
 */
function beginExplained(deps: VerifyDeps, request: ExplainRequest, context: ExplainContext) {
  const { sources } = deps;
  if (!isObject(request) || !Object.hasOwn(request, "keyId")) {
    const call = beginCall(deps, request, readContext(context));
    return {
      call,
      find: () => findKey(call),
      findAgain: () => findKeyAgain(call),
    };
  }
  const { keyId, rest } = readKeyId(request);
  const call = beginCall({ ...deps, plan: planRequest(deps.compileQuery, rest) }, ANY_KEY, readContext(context));
  const find = () => findKeyById(sources, keyId, call.context);
  return { call, find, findAgain: find, keyId };
}

/** Placeholder for the text of a key that is named by its id. */
const ANY_KEY = "-";
const MAX_ID = 255;

/** @throws KeystileError BAD_REQUEST */
function readKeyId(request: object): { readonly keyId: string; readonly rest: object } {
  const { keyId, ...rest } = request as { readonly keyId?: unknown };
  if (Object.hasOwn(rest, "key"))
    throw badRequest([{ location: "body.key", message: "must be left out", fix: "name the key by keyId or key" }]);
  if (typeof keyId === "string" && hasLength(keyId, 1, MAX_ID)) return { keyId, rest };
  throw badRequest([{ location: "body.keyId", message: `must be the id of a key, of 1 to ${MAX_ID} characters` }]);
}

/**
 * Validates a request that names a key by its id, without looking for the key.
 * @throws KeystileError BAD_REQUEST · PERMISSIONS_QUERY_SYNTAX
 */
export function validateExplained(request: object): void {
  planRequest(compileQuery, readKeyId(request).rest);
}

const OPTIONS = { clientAddress: () => {}, apiId: narrowing(text) } satisfies Record<keyof ExplainContext, Check>;

/**
 * What a verification would return now, and what each check finds, without taking or changing anything. For
 * administrators only: it shows more about keys than their users may see. Costs about as much as a verification.
 * Concurrent calls may make it outdated before it arrives. Emits no event.
 *
 * Why not a method of the verifier: programs that do not use it can be bundled without it.
 * @param verifier made by `createVerifier(store)`
 * @param request as for `verify`, or with the `keyId` in place of `key`
 * @param context `clientAddress` and `apiId` as for `verify`
 * @throws (rejects) KeystileError as `verify`; BAD_REQUEST for a limit that does not exist, whatever the earlier checks
 *   find · TypeError naming an option of the context, or for another verifier
 * @example
 * const { refusal, checks } = await explain(verifier, { key, permissions: "documents.read" });
 */
export async function explain(
  verifier: Pick<Verifier<unknown>, "verify">,
  request: ExplainRequest,
  context: ExplainContext = {},
): Promise<Explanation> {
  const verifying = depsOf(verifier);
  if (verifying === undefined) throw new TypeError("verifier must be one that createVerifier made");
  verifying.calls.assertOpen();
  const deps = dryRun(verifying);
  const own = checkOptions(context, OPTIONS, "context");
  const { call, find, findAgain, ...named } = beginExplained(deps, request, own);
  let key = await find();
  for (let restarts = 0; restarts <= MAX_RESTARTS; restarts++) {
    if (key === undefined) break;
    const { meta } = key.rare;
    if (meta !== undefined) await deps.readMeta?.(meta, key.keyId);
    const checks: ExplainedCheck[] = [];
    for (const [i, { code, fails }] of CHECKS.entries()) {
      // As in a verification, any result but `false` is a failure.
      const failed: unknown = await fails(call, key);
      checks.push({ code, passes: failed === false, ...FINDINGS[i]!(call, key) } as ExplainedCheck);
    }
    if (!isOutdated(call, key)) {
      if (call.spend === GONE) break;
      const refusal = checks.find(({ passes }) => !passes)?.code;
      const found = { keyId: key.keyId, apiId: key.policy.apiId, checks };
      return refusal === undefined ? { passes: true, ...found } : { passes: false, refusal, ...found };
    }
    // A dry run took no tokens, so the limits of the changed key are read again.
    forgetFindings(call);
    call.earlier = undefined;
    key = await findAgain();
  }
  if (key !== undefined && call.spend !== GONE)
    throw new KeystileError("STORE_BUSY", "the credits of this key kept changing while it was explained; try again");
  const row = await findDeletedKey(deps.sources, { key: call.key, ...named }, call.context);
  const { id, apiId, deletedAt, deletedBy } = row ?? {};
  return {
    ...{ passes: false, refusal: "NOT_FOUND", checks: [] },
    ...(id !== undefined && apiId !== undefined && { keyId: id, apiId, deleted: true }),
    ...(deletedAt !== undefined && { deletedAt }),
    ...(deletedBy !== undefined && { deletedBy }),
  };
}
