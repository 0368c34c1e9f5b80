/** Takes tokens of identifiers in namespaces: the operations `ratelimit.limit` and `ratelimit.multiLimit`. */
import type { NamespaceRow, OverrideRow } from "../../contracts/store.js";
import type { AppliedLimit } from "../../ratelimit/applied-limits.js";
import { boundReset } from "../../ratelimit/take-limits.js";
import type { LimitTaker } from "../../ratelimit/fallback.js";
import { overrideName } from "../../lib/row-name.js";
import type { OfCall, Shared } from "../context.js";
import { operation } from "../operation.js";
import type { Schema } from "../schemas/parse.js";
import { body, integer, length, list, optionalOr } from "../schemas/primitives.js";
import type { V2RatelimitLimitResponseData } from "../schemas/responses.js";
import type { V2RatelimitLimitRequestBody, V2RatelimitMultiLimitRequestBody } from "../schemas/service-requests.js";
import { enterNamespaces, newNamespace } from "./namespaces.js";
import { identifier } from "./overrides.js";
import { findWildcard } from "./wildcards.js";

/** The longest window (contract 8). */
const MAX_DURATION = 2_592_000_000;
const MAX_CHECKS = 100;

/** What rate-limit operations share. */
export interface LimitShared extends Shared {
  readonly limiter: LimitTaker;
}
type LimitContext = LimitShared & OfCall;

/** The result of one check. */
interface Checked {
  /** `reset` as in every response; the others not clamped: their bounds in contract 2.2 are those of a verification. */
  readonly counts: Pick<V2RatelimitLimitResponseData, "limit" | "remaining" | "reset">;
  readonly exceeded: boolean;
  readonly overrideId: string | undefined;
}

const check = body<V2RatelimitLimitRequestBody>()({
  namespace: newNamespace,
  cost: optionalOr(integer(0), 1),
  duration: length(1_000, MAX_DURATION),
  identifier,
  limit: integer(1),
});

/**
 * Takes tokens of one identifier; a refusal takes nothing.
 * @throws KeystileError BAD_REQUEST · CALLER_FORBIDDEN, also where there is no such namespace and the caller may not
 *   create one · NOT_FOUND: an id that no namespace has · LIMITER_UNAVAILABLE
 */
export const limit = operation("limit", check, async (context: LimitContext, request) => {
  const [checked] = await take(context, [request]);
  const { counts, exceeded, overrideId } = checked as Checked;
  return { ...counts, success: !exceeded, ...(overrideId !== undefined && { overrideId }) };
});

/**
 * Takes tokens of several identifiers in one step, all or nothing.
 * @throws KeystileError as {@link limit}
 */
export const multiLimit = operation(
  "multiLimit",
  list(check, 1, MAX_CHECKS) as Schema<V2RatelimitMultiLimitRequestBody>,
  async (context: LimitContext, requests) => {
    const checked = await take(context, requests);
    return {
      passed: checked.every(({ exceeded }) => !exceeded),
      limits: checked.map(({ counts, exceeded, overrideId }, i) => {
        const { namespace, identifier } = requests[i] as V2RatelimitLimitRequestBody;
        return { namespace, identifier, ...counts, passed: !exceeded, ...(overrideId !== undefined && { overrideId }) };
      }),
    };
  },
);

/** One call of the limiter for all; an override replaces the request's limit and window. */
async function take(context: LimitContext, requests: readonly V2RatelimitLimitRequestBody[]): Promise<Checked[]> {
  const names = requests.map(({ namespace }) => namespace);
  const namespaces = await enterNamespaces(context, names, "limit");
  const buckets = requests.map(({ namespace, identifier }) =>
    overrideName({ namespaceId: namespaces.get(namespace)!.id, identifier }),
  );
  const overrides = await findOverrides(context, requests, namespaces);
  const checks = requests.map((request, i): AppliedLimit => {
    const bucket = buckets[i]!;
    const override = overrides[i];
    const { limit, duration } = override ?? request;
    return {
      bucket,
      limit,
      duration,
      cost: request.cost ?? 1,
      id: override?.id ?? "",
      name: request.identifier,
      autoApply: false,
      workspaceId: context.workspaceId,
      configured: override && { limit, duration },
    };
  });
  const { verdicts } = await context.limiter.take(checks, context.now);
  return checks.map(({ limit }, i) => {
    const { exceeded, remaining, reset } = verdicts[i]!;
    return { counts: { limit, remaining, reset: boundReset(reset) }, exceeded, overrideId: overrides[i]?.id };
  });
}

/** Milliseconds of matching after which others get their turn. */
const TURN_MS = 4;

/**
 * The override of each request: that of its identifier, else the wildcard of its namespace that applies. One read for
 * all; every identifier keeps a bucket of its own.
 */
async function findOverrides(
  context: LimitContext,
  requests: readonly V2RatelimitLimitRequestBody[],
  namespaces: ReadonlyMap<string, NamespaceRow>,
): Promise<(OverrideRow | undefined)[]> {
  const names: { readonly exact: string; readonly wildcard: string | undefined }[] = [];
  let began = performance.now();
  for (const { namespace, identifier } of requests) {
    const row = namespaces.get(namespace)!;
    const found = findWildcard(row, identifier);
    const wildcard = found && overrideName({ namespaceId: row.id, identifier: found.identifier });
    names.push({ exact: overrideName({ namespaceId: row.id, identifier }), wildcard });
    if (performance.now() - began < TURN_MS) continue;
    await context.turns.next();
    began = performance.now();
  }
  const asked = new Set(names.flatMap(({ exact, wildcard }) => (wildcard === undefined ? [exact] : [exact, wildcard])));
  const rows = new Map<string, OverrideRow>();
  for (const row of await context.store.readNames("overrides", context.workspaceId, [...asked]))
    rows.set(overrideName(row), row);
  return names.map(({ exact, wildcard }) => rows.get(exact) ?? rows.get(wildcard ?? ""));
}
