/** The ordered checks, top to bottom. Spec §2.2, §3, ruling A1. The one room with the branching; what each check means is said elsewhere. */
import type { Caller } from "./caller.js";
import { VerifierError } from "./errors.js";
import type { Spender } from "./leases.js";
import type { DegradingLimiter } from "./limiters/degrading.js";
import type { OutcomeEvent } from "./outcomes.js";
import { redact } from "./outcomes.js";
import type { Query } from "./permissions.js";
import type { PreparedKey } from "./prepared-key.js";
import { readRequest, type VerificationRequest } from "./request.js";
import { type LimitsTaken, takeLimits } from "./take-limits.js";
import type { MaybePromise, V2KeysVerifyKeyResponseData, VerificationCode } from "./types.js";

/** What the caller knows of a request besides its body. */
export interface VerifyContext {
  /** The client's address, IPv4 or IPv6; a key or API with an allow-list is FORBIDDEN without it (ruling A4). */
  readonly clientAddress?: string;
  /** Who asks, when the program serves others: spec §4.1-3 and §4.1-4 apply. Absent: the program itself, which may all (ruling F1). */
  readonly caller?: Caller;
}

/** What a verification consults; wired by `createVerifier`. */
export interface Engine {
  readonly clock: () => number;
  readonly compileQuery: (text: string) => Query;
  /** The key that was presented, if it may be seen here (rulings E4, F1). */
  readonly findKey: (request: VerificationRequest, caller: Caller | undefined, now: number) => MaybePromise<PreparedKey | undefined>;
  readonly limiter: DegradingLimiter;
  readonly spender: Spender;
  readonly onOutcome: ((event: OutcomeEvent) => void) | undefined;
}

/** A verification on its way to an answer: what was found out so far. */
interface Verification {
  readonly engine: Engine;
  readonly request: VerificationRequest;
  readonly now: number;
  readonly key: PreparedKey;
  queried: boolean;
  limits: LimitsTaken | undefined;
}

/**
 * Judges one request. The first check that fails gives the code; later ones do not run (ruling A1).
 * @throws VerifierError 400 for a request or query that is not well formed, and for a limit that does not exist (ruling C5); 403 for
 *   a caller without any right to verify (spec §4.1-4)
 * @see spec §4.1-1, §4.1-2, ruling A2 for what each outcome consumes · waits only for what is not in memory
 */
export async function verifyKey(engine: Engine, body: unknown, context: VerifyContext): Promise<V2KeysVerifyKeyResponseData> {
  const request = readRequest(body);
  const query = request.permissions === undefined ? undefined : engine.compileQuery(request.permissions);
  const { caller } = context;
  if (caller !== undefined && !caller.mayAny("verify_key", "api")) throw mayNotVerify();
  const now = engine.clock();
  const found = engine.findKey(request, caller, now);
  const key = found instanceof Promise ? await found : found;
  if (key === undefined) return notFound(engine, request, now);

  const verification: Verification = { engine, request, now, key, queried: false, limits: undefined };
  if (!key.enabled) return refuse(verification, "DISABLED");
  if (key.expires !== undefined && now > key.expires) return refuse(verification, "EXPIRED");
  if (key.suspended || !key.allows(context.clientAddress)) return refuse(verification, "FORBIDDEN");
  verification.queried = query !== undefined;
  if (query !== undefined && !key.holdings.satisfy(query)) return refuse(verification, "INSUFFICIENT_PERMISSIONS");

  const taking = takeLimits(engine.limiter, key, request.ratelimits, now);
  const limits = (verification.limits = taking instanceof Promise ? await taking : taking);
  if (limits?.exceeded === true) return refuse(verification, "RATE_LIMITED");
  if (!key.limited) return conclude(verification, "VALID", undefined);
  const spending = engine.spender.spend(key, request.cost, now);
  const spend = spending instanceof Promise ? await spending : spending;
  if (spend === undefined) return notFound(engine, request, now);
  return conclude(verification, spend.ok ? "VALID" : "USAGE_EXCEEDED", spend.remaining ?? undefined);
}

const mayNotVerify = () => new VerifierError("CALLER_FORBIDDEN", "the credential has no permission to verify keys");

/** An early refusal takes nothing and shows the balance as it stands (rulings A2, A6). */
async function refuse(verification: Verification, code: VerificationCode): Promise<V2KeysVerifyKeyResponseData> {
  const { engine, key, now, request } = verification;
  if (!key.limited) return conclude(verification, code, undefined);
  const balance = await engine.spender.spend(key, 0, now);
  if (balance === undefined) return notFound(engine, request, now);
  return conclude(verification, code, balance.remaining ?? undefined);
}

/** Nothing but `valid` and `code`: what is hidden looks like what does not exist (ruling A5, spec §4.1-3). */
function notFound({ onOutcome }: Engine, { tags, key }: VerificationRequest, now: number): V2KeysVerifyKeyResponseData {
  onOutcome?.({ time: now, code: "NOT_FOUND", tags: redact(tags, key), spent: 0, degraded: false });
  return { valid: false, code: "NOT_FOUND" };
}

/** The one builder of answers about a key that was found: a property that does not apply is not there (ruling A5). */
function conclude(verification: Verification, code: VerificationCode, credits: number | undefined): V2KeysVerifyKeyResponseData {
  const { key, queried, limits } = verification;
  const answer: V2KeysVerifyKeyResponseData = { valid: code === "VALID", code, keyId: key.keyId, enabled: key.enabled };
  if (key.name !== undefined) answer.name = key.name;
  if (key.extra?.meta !== undefined) answer.meta = key.extra.meta;
  if (key.expires !== undefined) answer.expires = key.expires;
  if (credits !== undefined) answer.credits = credits;
  if (queried || code === "FORBIDDEN") answer.permissions = key.holdings.copyPermissions();
  if (queried) answer.roles = key.holdings.copyRoles();
  if (key.extra?.identity !== undefined) answer.identity = key.extra.identity;
  if (limits !== undefined) answer.ratelimits = limits.results;
  if (verification.engine.onOutcome !== undefined) report(verification, code);
  return answer;
}

function report({ engine, key: { keyId, mould, extra }, request, now, limits }: Verification, code: VerificationCode): void {
  engine.onOutcome?.({
    time: now,
    code,
    tags: redact(request.tags, request.key),
    keyId,
    apiId: mould.apiId,
    workspaceId: mould.workspaceId,
    ...(extra?.identity !== undefined && { identityId: extra.identity.id }),
    spent: code === "VALID" && mould.limited ? request.cost : 0,
    degraded: limits?.degraded === true,
  });
}
