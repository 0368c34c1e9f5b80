/**
 * Spends by id: credits of a key or of an identity, without the text of a key, for workers that are handed a job after
 * the call that paid for it was checked. No other check runs than that the owner exists.
 *
 * Why nothing is remembered between two of them: a worker's call is one of few, and so it always sees the credits,
 * grants and refills as they are.
 */
import type { CachedKey } from "../cache/cached-key.js";
import { badRequest, KeystileError } from "../contracts/errors.js";
import type { IdentityRow, Spend } from "../contracts/store.js";
import type { MaybePromise } from "../contracts/types.js";
import type { SpendTarget } from "../credits/spender.js";
import { checkOptions, DEFAULT_WORKSPACE, isPlainObject, narrowing, ownOnly } from "../lib/check-options.js";
import { hasLength } from "../lib/copy-json.js";
import { requirePower } from "../lib/guards/powers.js";
import type { VerifyDeps } from "./call.js";
import { findKeyById, type KeySources } from "./find-key.js";
import type { BegunCall, IdempotentCall } from "./idempotency.js";
import type { SettledOf } from "./outcome-flush.js";
import { NO_REQUEST, planRequest, type VerificationRequest } from "./request.js";
import { refusedSpend } from "./refusals.js";
import { MAX_RESTARTS } from "./verify-key.js";

/** Whose credits are spent: those that the key's calls take, or those of the identity. */
export type SpendOwner =
  | { readonly keyId: string; readonly identity?: never }
  | {
      /** Its `externalId` or its id, in the verifier's workspace. */
      readonly identity: string;
      readonly keyId?: never;
    };

/** What is spent. */
export interface SpendRequest {
  /** Credits, an integer from 0 to 1,000,000,000,000; 0 only reads. Default 1. */
  readonly cost?: number;
  /** Labels for analytics, as those of a verification. */
  readonly tags?: readonly string[];
}

/** Options of a spend by id. */
export interface SpendOptions {
  /** As `idempotencyKey` of a verification: a repeat takes nothing again. Absent: every call spends. */
  readonly idempotencyKey?: string;
}

/** What became of a spend by id. */
export type SpendResult =
  | {
      /** USAGE_EXCEEDED: nothing was taken. */
      readonly code: "VALID" | "USAGE_EXCEEDED";
      /** What could be spent after it; null: unlimited. */
      readonly remaining: number | null;
      /** True: the idempotency key was used before, and nothing was taken. */
      readonly repeated?: true;
    }
  | {
      /** There is no such key or identity. */
      readonly code: "NOT_FOUND";
    };

/** Who pays. */
interface Payer {
  /** Whose spend it is counted as. */
  readonly of: SettledOf & { readonly identity?: { readonly id: string; readonly externalId: string } | undefined };
  /** `undefined`: it has no balance, and its credits are unlimited. */
  readonly target: SpendTarget | undefined;
  /** The key, where it is one. */
  readonly key?: CachedKey;
}

const OPTIONS = { idempotencyKey: narrowing(() => {}) };
const MAX_ID = 255;
/** As of a verification. */
const MAX_COST = 1_000_000_000_000;
const EVERYBODY = { caller: undefined, apiId: undefined } as const;

/** Makes the function that spends by id with these dependencies. It rejects as `Verifier.spend`. */
export function spendWith(deps: VerifyDeps) {
  const { idempotency, counter, onOutcome, sources } = deps;
  return async (given: SpendOwner, request: SpendRequest, options: SpendOptions): Promise<SpendResult> => {
    const owner = ownerOf(given);
    const { cost, tags } = readSpend(deps, request);
    const { idempotencyKey } = checkOptions(options, OPTIONS);
    const scope = idempotencyKey === undefined ? undefined : idempotency.scopeOf(idempotencyKey, undefined);
    const [now, began] = [deps.clock(), performance.now()];
    const call = { ...NO_REQUEST, cost, tags, now, context: { timeout: undefined }, owner: JSON.stringify(owner) };
    let once: IdempotentCall | undefined;
    try {
      for (let runs = 0; runs <= MAX_RESTARTS; runs++) {
        const payer = await findPayer(sources, owner);
        if (payer === "changed") continue;
        if (payer === undefined) {
          counter?.countUnknown(sources.workspaceId ?? DEFAULT_WORKSPACE, call);
          onOutcome?.({ ...told(began), time: now, code: "NOT_FOUND", tags, spent: 0 });
          return { code: "NOT_FOUND" };
        }
        const { of, target } = payer;
        if (scope !== undefined) once ??= await idempotency.begin(scope, of.workspaceId, call);
        const spend = await take(deps, call, { target, once });
        // The account is gone, or has another refill than was found: found again.
        if (spend === undefined || spend.stale === true) continue;
        const repeated = once?.isRepeat === true;
        const code = spend.ok || repeated ? "VALID" : "USAGE_EXCEEDED";
        const spent = code === "VALID" && target !== undefined && !repeated ? cost : 0;
        counter?.countSpent(of, { code, spent }, call);
        if (code !== "VALID" && payer.key !== undefined)
          counter?.noteRefusal?.(of, refusedSpend(call, spend, payer.key));
        onOutcome?.({ ...told(began), ...whose(payer, spend), time: now, code, tags, spent });
        return { code, remaining: spend.remaining, ...(repeated && { repeated }) };
      }
    } finally {
      if (once !== undefined) idempotency.end(once);
    }
    throw new KeystileError("STORE_BUSY", "the credits kept changing while they were spent; try again");
  };
}

/** @throws KeystileError BAD_REQUEST */
function ownerOf(given: SpendOwner): { readonly keyId?: string; readonly identity?: string } {
  const { keyId, identity, ...others } = isPlainObject(given) ? ownOnly(given) : ({} as Partial<SpendOwner>);
  const id = keyId ?? identity;
  const isOne = (keyId === undefined) !== (identity === undefined) && Object.keys(others).length === 0;
  if (isOne && typeof id === "string" && hasLength(id, 1, MAX_ID))
    return keyId === undefined ? { identity: id } : { keyId: id };
  const message = `must be { keyId } or { identity }, with an id of 1 to ${MAX_ID} characters`;
  throw badRequest([{ location: "owner", message }]);
}

/** @throws KeystileError BAD_REQUEST */
function readSpend(deps: VerifyDeps, request: SpendRequest): Pick<VerificationRequest, "cost" | "tags"> {
  if (!isPlainObject(request)) throw badRequest([{ location: "body", message: "must be an object, such as { cost }" }]);
  const { cost, ...rest } = ownOnly(request);
  for (const name in rest)
    if (name !== "tags")
      throw badRequest([{ location: `body.${name}`, message: "is unknown", fix: "give cost and tags" }]);
  // Undefined counts: a cost that a program lost must not become 1.
  if (!Object.hasOwn(request, "cost")) return planRequest(deps.compileQuery, rest).request;
  if (cost === undefined || !(Number.isSafeInteger(cost) && cost >= 0 && cost <= MAX_COST))
    throw badRequest([{ location: "body.cost", message: `must be an integer from 0 to ${MAX_COST}` }]);
  return { ...planRequest(deps.compileQuery, rest).request, cost };
}

/** Who pays, read from the store. @returns undefined: nobody; `changed`: it changed between two reads */
async function findPayer(
  sources: KeySources,
  { keyId, identity }: ReturnType<typeof ownerOf>,
): Promise<Payer | "changed" | undefined> {
  if (keyId !== undefined) {
    const key = await findKeyById(sources, keyId, EVERYBODY);
    return key && { of: key, target: key.policy.hasCredits ? key : undefined, key };
  }
  const { store, workspaceId = DEFAULT_WORKSPACE } = sources;
  requirePower(store, "wallets", "verifier.spend of an identity");
  await store.pollChanges("anew");
  const row = await findIdentity(sources, workspaceId, identity as string);
  if (row === undefined) return undefined;
  const wallet = await store.findWallet!(row.id);
  const of = { workspaceId, apiId: "", keyId: "", identity: row };
  // It is gone, or has no balance any more: nothing that was read is a reason to let it spend without end.
  if (wallet === undefined) return row.hasCredits === true ? "changed" : { of, target: undefined };
  const { accounts } = wallet;
  const { ref, refill, generation } = accounts[0]!;
  const several = accounts.length > 1 ? { wallets: [wallet] } : {};
  return { of: { ...of, account: ref }, target: { ref, refill, generation, ...several, lease: undefined } };
}

async function findIdentity(
  { store }: KeySources,
  workspaceId: string,
  idOrName: string,
): Promise<IdentityRow | undefined> {
  const [byId] = await store.readMany("identities", [idOrName]);
  if (byId?.workspaceId === workspaceId) return byId;
  return (await store.readNames("identities", workspaceId, [idOrName]))[0];
}

function take(
  { spender, idempotency }: VerifyDeps,
  call: Pick<BegunCall, "cost" | "now">,
  { target, once }: { readonly target: SpendTarget | undefined; readonly once: IdempotentCall | undefined },
): MaybePromise<Spend | undefined> {
  if (once !== undefined && !once.isRepeat) return idempotency.spend(once, target, call);
  if (target === undefined) return { ok: true, remaining: null };
  return spender.spend(target, once === undefined ? call.cost : 0, call.now);
}

/** What every event of a spend says. */
function told(began: number) {
  return { kind: "spend", duration: performance.now() - began, degraded: false } as const;
}

function whose({ of: { workspaceId, apiId, keyId, identity }, target }: Payer, { remaining, least }: Spend) {
  return {
    workspaceId,
    ...(keyId !== "" && { keyId, apiId }),
    ...(identity !== undefined && { identityId: identity.id, externalId: identity.externalId }),
    ...(remaining !== null && { remaining }),
    ...(least !== undefined && { decidedBy: target?.wallets?.[least]?.owner }),
  };
}
