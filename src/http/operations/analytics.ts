/**
 * Operations `analytics.*`. The interface has the query of `getVerifications` as SQL text; here it is an object, or a
 * text that holds its JSON, so that clients of the interface can send it.
 */
import { readStatement } from "../../analytics/read-statement.js";
import {
  assertStatementOf,
  boundsOf,
  type Statement,
  type StatementAccount,
  type StatementLine,
  type StatementOf,
  type StatementSums,
} from "../../analytics/statement.js";
import { type Plan, planQuery } from "../../analytics/query.js";
import { type AnalyticsRow, readRows } from "../../analytics/rows.js";
import {
  readRefusals,
  type Refusals,
  type RefusalsOf,
  type RefusalsRange,
  type RefusedHour,
} from "../../analytics/refusals.js";
import type { AuditEntry } from "../../contracts/audit.js";
import { badRequest, type ValidationProblem } from "../../contracts/errors.js";
import type { Refusal } from "../../contracts/outcomes.js";
import { body, optional, text as textGiven, time as timeGiven } from "../../keyring/schemas/primitives.js";
import { hasLength } from "../../lib/copy-json.js";
import { isPlainObject } from "../../lib/check-options.js";
import { HIDDEN_PROPERTY, MAX_PROBLEMS, PLAIN_NAME, UNKNOWN_PROPERTY } from "../../lib/problems.js";
import { requirePower } from "../../lib/guards/powers.js";
import type { Context } from "../../keyring/context.js";
import { operation } from "../../keyring/operation.js";
import { forbidden } from "../../keyring/rows.js";
import { type Access, formsOf, onKey } from "./access.js";
import { group } from "./operation.js";
import {
  arrayOf,
  changeOfCredits,
  changesOfFields,
  each,
  flag,
  free,
  integer,
  object,
  text,
  texts,
  time,
} from "./responses.js";

/** Counts that one call may read, rows that they may make, and milliseconds after which reading ends. */
const MAX_ROWS = 1_000_000;
const MAX_GROUPS = 50_000;
const TIMEOUT = 5_000;
const MAX_QUERY = 100_000;
const ACTION = "read_analytics";
const FORM = 'send { "by": ["day", "outcome"], "from": 1793491200000, "to": 1796083200000 }, or its JSON as text';

interface Request {
  readonly query: unknown;
}

const idGiven = textGiven(1, 512);
type RefusalsRequest = RefusalsOf & RefusalsRange;
type StatementRequest = Pick<RefusalsOf, "keyId" | "externalId"> & { readonly month: string };
const refusalsAsked = body<RefusalsRequest>()({
  ...{ keyId: optional(idGiven), externalId: optional(idGiven), apiId: optional(idGiven) },
  ...{ from: optional(timeGiven), to: optional(timeGiven) },
});
const statementAsked = body<StatementRequest>()({
  ...{ keyId: optional(idGiven), externalId: optional(idGiven), month: textGiven(1, 7) },
});

/** A row as the interface names its columns. */
interface Row {
  readonly time?: number;
  readonly outcome?: string;
  readonly key_id?: string;
  readonly external_id?: string;
  readonly key_space_id?: string;
  readonly tags?: readonly string[];
  readonly count: number;
  readonly spent_credits: number;
}

const define = group("analytics", ({ keyring }) => keyring);

const permissions = formsOf(ACTION, "api", "api_id");
/** Whoever may not read all APIs names those that it may. */
const access: Access<Request> = {
  action: ACTION,
  type: "api",
  permissions,
  allow(_context, caller, request) {
    if (caller.may(ACTION, { type: "api" })) return;
    const { apiIds } = planOf(request).query;
    if (apiIds === undefined || !apiIds.every((id) => caller.may(ACTION, { type: "api", id })))
      throw forbidden(permissions);
  },
};

/** On all APIs, on the one that is named, or on that of the key that is. */
const onNamed: Access<RefusalsOf> = {
  ...{ action: ACTION, type: "api", permissions },
  async allow(context, caller, { keyId, apiId }) {
    if (caller.may(ACTION, { type: "api" })) return;
    if (keyId !== undefined) return onKey(ACTION).allow(context, caller, { keyId });
    if (apiId === undefined || !caller.may(ACTION, { type: "api", id: apiId })) throw forbidden(permissions);
  },
};

async function getRefusals({ store, workspaceId, now }: Context, request: RefusalsRequest): Promise<Refusals> {
  requirePower(store, "analytics", "analytics.getRefusals");
  const bounds = { maxRows: MAX_ROWS, until: performance.now() + TIMEOUT };
  return readRefusals(store, workspaceId, request, { ...bounds, now, location: "body" });
}

/** Who changed something, and why, is told to whoever may read the audit trail. */
async function getStatement(
  { store, workspaceId, now, caller }: Context,
  { month, ...named }: StatementRequest,
): Promise<Statement> {
  const of = named as StatementOf;
  assertStatementOf(of, "body");
  boundsOf(month, "body.month");
  requirePower(store, "analytics", "analytics.getStatement");
  const bounds = { maxRows: MAX_ROWS, until: performance.now() + TIMEOUT };
  const found = await readStatement(store, workspaceId, { of, month }, { ...bounds, now });
  if (caller?.may("read_audit", { type: "workspace" }) !== false) return found;
  const lines = found.lines.map(({ operation: _operation, actor: _actor, reason, ...line }) =>
    line.kind === "adjustment" || reason === undefined ? line : { ...line, reason },
  );
  return { ...found, lines, changes: [] };
}

const amount = integer(-Number.MAX_SAFE_INTEGER);
const given = ["opening", "refills", "granted", "adjustments"] as const;
const sums = each(amount, ...given, "spent", "forfeited", "expired", "closing") satisfies Record<
  keyof StatementSums,
  unknown
>;
const statement = object<Statement>(
  {
    month: text,
    ...sums,
    ...each(amount, "unattributed", "unexplained"),
    refused: free,
    days: arrayOf(object<Statement["days"][number]>({ day: time, spent: amount })),
    accounts: arrayOf(
      object<StatementAccount>(
        { account: text, ...sums },
        { keyId: text, identityId: text, grantId: text, reason: text, isCap: { ...flag, enum: [true] } },
      ),
    ),
    lines: arrayOf(
      object<StatementLine>(
        { time, kind: text, credits: amount },
        { grantId: text, reason: text, operation: text, actor: text },
      ),
    ),
    changes: arrayOf(
      object<AuditEntry>(
        { time, ...each(text, "workspaceId", "actorKind", "operation"), ids: texts, fields: texts, count: integer(0) },
        { changes: changesOfFields, actor: text, credits: changeOfCredits, reason: text },
      ),
    ),
  },
  { countedFrom: time },
);

const refusal = object<Refusal>(
  { time, code: text, cost: integer(0) },
  {
    ...{ kind: text, remaining: integer(0), decidedBy: text, permissions: text, address: text, tags: texts },
    ratelimit: object<NonNullable<Refusal["ratelimit"]>>({
      name: text,
      ...each(integer(0), "limit", "duration", "remaining", "reset"),
    }),
  },
);

async function getVerifications({ store, workspaceId }: Context, request: Request): Promise<readonly Row[]> {
  const plan = planOf(request);
  requirePower(store, "analytics", "analytics.getVerifications");
  const bounds = { maxRows: MAX_ROWS, maxGroups: MAX_GROUPS, until: performance.now() + TIMEOUT };
  const rows = await readRows(store, workspaceId, bounds, plan);
  return rows.slice(plan.skip, plan.skip + plan.limit).map(toRow);
}

function toRow({ time: start, outcome, keyId, externalId, apiId, tag, tags, count, spent }: AnalyticsRow): Row {
  const named = Object.entries(tags ?? {}).map(([name, value]) => `${name}=${value}`);
  const shown = tag === undefined ? named : [tag, ...named];
  return {
    ...(start !== undefined && { time: start }),
    ...(outcome !== undefined && { outcome }),
    ...(keyId !== undefined && { key_id: keyId }),
    ...(externalId !== undefined && { external_id: externalId }),
    ...(apiId !== undefined && { key_space_id: apiId }),
    ...(shown.length > 0 && { tags: shown }),
    ...{ count, spent_credits: spent },
  };
}

/** @throws KeystileError BAD_REQUEST at `body` or `body.query` */
function read(body: unknown): Request {
  if (!isPlainObject(body)) throw badRequest([{ location: "body", message: "must be an object", fix: FORM }]);
  const others = Object.keys(body).filter((name) => name !== "query");
  if (others.length > 0) throw badRequest(others.slice(0, MAX_PROBLEMS).map(unknownProperty));
  const { query } = body as Request;
  if (isPlainObject(query) || (typeof query === "string" && hasLength(query, 1, MAX_QUERY))) return { query };
  throw badRequest([{ location: "body.query", message: "must be an object or its JSON as text", fix: FORM }]);
}

const unknownProperty = (name: string): ValidationProblem =>
  PLAIN_NAME.test(name) ? { location: `body.${name}`, ...UNKNOWN_PROPERTY } : { location: "body", ...HIDDEN_PROPERTY };

/** @throws KeystileError BAD_REQUEST at `body.query` */
const planOf = ({ query }: Request): Plan =>
  planQuery(typeof query === "string" ? fromText(query) : query, "body.query");

function fromText(query: string): unknown {
  try {
    return JSON.parse(query);
  } catch {
    // It is SQL, or anything else.
  }
  throw badRequest([{ location: "body.query", message: "must be an object or its JSON; SQL is not read", fix: FORM }]);
}

/** What verifiers counted. */
export const analyticsOperations = [
  define(
    { name: "getVerifications", act: getVerifications },
    {
      reading: {
        request: {
          type: "object",
          properties: { query: { type: ["string", "object"], minLength: 1, maxLength: MAX_QUERY } },
          required: ["query"],
          additionalProperties: false,
        },
        read,
      },
      summary: "Adds up verifications by time, key, owner, API, outcome and tags.",
      answer: arrayOf(
        object<Row>(
          { count: integer(0), spent_credits: integer(0) },
          { time, outcome: text, key_id: text, external_id: text, key_space_id: text, tags: texts },
        ),
      ),
      access,
      isLong: true,
      statuses: [422],
    },
  ),
  define(operation("getRefusals", refusalsAsked, getRefusals), {
    summary: "Why calls of a key, an owner or an API were refused: by code and hour, and the last ones of a key.",
    answer: object<Refusals>({
      hours: arrayOf(object<RefusedHour>({ time, code: text, count: integer(1) })),
      last: arrayOf(refusal),
    }),
    access: onNamed,
    statuses: [404, 422],
  }),
  define(operation("getStatement", statementAsked, getStatement), {
    summary: "The credits of an owner or a key in a month: what was there, came, was spent and is left, line by line.",
    answer: statement,
    access: onNamed,
    isLong: true,
    statuses: [404, 422],
  }),
];
