/** Calls operations of the service in process, as a caller: with the rights, the rules and the audit trail of HTTP. */
import type { Refusals } from "../analytics/refusals.js";
import type { Caller, Resource } from "../contracts/caller.js";
import { badRequest, isKeystileError, KeystileError, type ValidationProblem } from "../contracts/errors.js";
import type { MaybePromise } from "../contracts/types.js";
import { IDEMPOTENCY_KEY } from "../http/idempotency-key.js";
import { describePermissions } from "../http/operations/access.js";
import { OPERATIONS } from "../http/operations/index.js";
import type { Operation, Services } from "../http/operations/operation.js";
import { dryContext } from "../keyring/import/dry-store.js";
import type { Keyring } from "../keyring/keyring.js";
import type { Ratelimits } from "../keyring/ratelimits/create-ratelimits.js";
import type { Explanation } from "../verify/explain.js";
import { unless } from "../view/pages.js";

/** What operations of the service alone return. */
interface ServiceAnswers {
  "analytics.getVerifications": unknown;
  "analytics.getRefusals": Refusals;
  "callers.whoami": { readonly kind: string; readonly id?: string; readonly name?: string };
  "keys.explainKey": Explanation;
}
type Methods = Keyring & Ratelimits;
type Group = "apis" | "audit" | "keys" | "identities" | "permissions" | "rootKeys" | "ratelimit";
export type OperationName = keyof ServiceAnswers | `${Group}.${keyof Methods}`;
/** What an operation returns: as the library has it, with what HTTP leaves out. */
type Answer<N extends OperationName> = N extends keyof ServiceAnswers
  ? ServiceAnswers[N]
  : N extends `${Group}.${infer M extends keyof Methods}`
    ? Awaited<ReturnType<Methods[M]>>
    : never;

/**
 * Calls an operation.
 * @throws (rejects) KeystileError as over HTTP
 */
export type Ask = <N extends OperationName>(name: N, body: object, more?: Asking) => Promise<Answer<N>>;
export interface Asking {
  /** For an operation that honours it: a repeat changes nothing. */
  readonly idempotencyKey?: string;
  /** Of the monotonic clock, milliseconds: a list has what is found by then. */
  readonly until?: number;
}

/** Operations that change nothing. */
const READS = /\.(get|list|search|count|explain|whoami)/;

/** The names of all others, as the audit trail has them. */
export const CHANGES: readonly string[] = Object.keys(OPERATIONS)
  .filter((name) => !READS.test(name) && !/verify|[lL]imit$|export/.test(name))
  .map((name) =>
    name.replace("s.updateCredits", name.startsWith("i") ? "s.updateIdentityCredits" : "$&").replace(/^.*\./, ""),
  );

const operationOf = (name: OperationName): Operation => OPERATIONS[name] as Operation;

/** The permissions of which an operation needs one. */
export const permissionsOf = (name: OperationName): readonly string[] => operationOf(name).permissions;

/** The permissions that an operation needs, as text after "needs". @param mark formats one */
export const rightsOf = (name: OperationName, mark: (permission: string) => string): string =>
  describePermissions(operationOf(name), mark);

/**
 * Whether the caller may do this anywhere at all: on all resources, where an operation is for who may do it on all of
 * them. @param isReadOnly nothing that changes anything
 */
export function mayAsk(caller: Caller, name: OperationName, isReadOnly: boolean): boolean {
  const { mayAny, permissions, also } = operationOf(name);
  if ((isReadOnly && !READS.test(name)) || !mayAny(caller)) return false;
  const needed = also.filter(({ where }) => where === undefined).map(({ permission }) => partsOf(permission));
  const isOnAll = permissions.length > 0 && permissions.every((permission) => permission.includes(".*."));
  const [type, action] = partsOf(permissions[0] ?? "");
  return needed.every(([kind, act]) => caller.mayAny(act, kind)) && (!isOnAll || caller.may(action, { type }));
}

/** `api.*.read_key` → `api`, `read_key`. */
function partsOf(permission: string): readonly [type: Resource["type"], action: string] {
  const [type = "", , action = ""] = permission.split(".");
  return [type as Resource["type"], action];
}

/** Why a caller may not do this, whom {@link mayAsk} refused. */
export function refusal(name: OperationName, isReadOnly: boolean): KeystileError {
  return isReadOnly && !READS.test(name)
    ? new KeystileError("CALLER_FORBIDDEN", "this console only reads: nothing can be changed in it")
    : new KeystileError("CALLER_FORBIDDEN", `this takes ${rightsOf(name, (permission) => permission)}`);
}

/**
 * Refuses a form that has problems of its own, with all those that the operation finds in the rest: one round for all.
 * @throws KeystileError BAD_REQUEST, if there are any
 */
export function refuseProblems(problems: readonly ValidationProblem[], name: OperationName, body: object): void {
  if (problems.length === 0) return;
  let more: readonly ValidationProblem[] = [];
  try {
    operationOf(name).validate(body, "any");
  } catch (error) {
    if (!isKeystileError(error)) throw error;
    more = error.errors;
  }
  throw badRequest([...problems, ...more]);
}

/** Operations as a caller, in its workspace. @param isGone of a page: whether nobody waits for it any more */
export function askAs(
  caller: Caller,
  servicesOf: (workspaceId: string) => MaybePromise<Services>,
  { isReadOnly, isGone }: { readonly isReadOnly: boolean; readonly isGone: (() => boolean) | undefined },
): Ask {
  return async (name, body, { idempotencyKey, until = Infinity } = {}) => {
    const { perform } = operationOf(name);
    if (!mayAsk(caller, name, isReadOnly)) throw refusal(name, isReadOnly);
    const services = await servicesOf(caller.workspaceId);
    const header = (asked: string) => (asked === IDEMPOTENCY_KEY.toLowerCase() ? idempotencyKey : undefined);
    const isOver = (): boolean => performance.now() >= until || isGone?.() === true;
    return (await perform(services, { caller, body, header, isWhole: true, isGone: isOver })) as Answer<typeof name>;
  };
}

/** Services whose keyring writes nothing, for dry runs of imports. @throws KeystileError STORE_POWER_MISSING */
export const dryServices = (services: Services): Services => ({ ...services, keyring: dryContext(services.keyring) });

/** A part of a page, or nothing where the store cannot tell it, or the caller may not see it. */
export const ifAble = <T>(asking: Promise<T>): Promise<T | undefined> =>
  asking.catch(unless(({ code }) => code === "STORE_POWER_MISSING" || code === "CALLER_FORBIDDEN"));

/** What is named, or nothing where it is gone, or the caller may not see it. */
export const ifThere = <T>(asking: Promise<T>): Promise<T | undefined> =>
  asking.catch(unless(({ status }) => status === 403 || status === 404));

/** What is counted, or nothing where that is too much to add up for a page. */
export const ifCounted = <T>(asking: MaybePromise<T>): Promise<T | undefined> =>
  Promise.resolve(asking).catch(unless(({ code }) => code === "ANALYTICS_TOO_LARGE"));

/** Whether the store cannot do what was asked. */
export const lacksPower = (error: unknown): error is KeystileError =>
  isKeystileError(error) && error.code === "STORE_POWER_MISSING";
