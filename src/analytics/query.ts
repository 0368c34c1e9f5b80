/** A query of counts: validated, and divided into what the store adds up and what is left to do with its sums. */
import { badRequest, type ValidationProblem } from "../contracts/errors.js";
import {
  LEVELS,
  type OutcomeDimension,
  type OutcomeLevel,
  OUTCOMES,
  type OutcomeQuery,
} from "../contracts/outcomes.js";
import type { VerificationCode } from "../contracts/types.js";
import { isPlainObject, MAX_DATE_MS } from "../lib/check-options.js";
import { explainLate } from "../lib/seconds.js";

/** Lengths of time that rows may be told apart by. */
export type AnalyticsPeriod = OutcomeLevel | "month";
/** What rows may be told apart by; `tag:plan` is the value of the tag `plan=…`. */
export type AnalyticsDimension =
  | AnalyticsPeriod
  | "keyId"
  | "externalId"
  | "apiId"
  | "outcome"
  | "tag"
  | `tag:${string}`;

/** What is asked of the counts. */
export interface AnalyticsQuery {
  /** At most four, of them one period. By `tag` a call counts once for each of its tags. */
  readonly by?: readonly AnalyticsDimension[] | undefined;
  /** Only what has one of these values; at most 100 each. */
  readonly where?: {
    readonly keyId?: readonly string[];
    readonly externalId?: readonly string[];
    readonly apiId?: readonly string[];
    readonly outcome?: readonly VerificationCode[];
    readonly tag?: readonly string[];
  };
  /**
   * Unix time, milliseconds. Both ends are moved out to the whole periods that are counted: minutes, hours, or days
   * where rows are not told apart by less.
   */
  readonly from: number;
  /** Unix time, milliseconds; this instant is not included. */
  readonly to: number;
  /** Default `time`; `count` and `spent` begin with the most. */
  readonly order?: "time" | "count" | "spent" | undefined;
  /** Rows, 1…10_000, default 1_000. */
  readonly limit?: number | undefined;
  /** Of the page before. */
  readonly cursor?: string | undefined;
}

/** A validated query. */
export interface Plan {
  readonly query: Omit<OutcomeQuery, "workspaceId" | "maxRows">;
  readonly period: AnalyticsPeriod | undefined;
  readonly by: readonly AnalyticsDimension[];
  readonly outcomes: readonly VerificationCode[] | undefined;
  readonly tags: readonly string[] | undefined;
  readonly order: "time" | "count" | "spent";
  readonly limit: number;
  readonly skip: number;
}

const FIELDS = ["by", "where", "from", "to", "order", "limit", "cursor"];
const FILTERS = ["keyId", "externalId", "apiId", "outcome", "tag"] as const;
const DIMENSIONS: readonly string[] = ["keyId", "externalId", "apiId", "outcome", "tag"];
const PERIODS: readonly string[] = ["minute", "hour", "day", "month"];
const ORDERS = ["time", "count", "spent"];
const MAX_DIMENSIONS = 4;
const MAX_VALUES = 100;
const MAX_LIMIT = 10_000;
const MAX_TEXT = 512;
/** Pages go no further than a query may read. */
const CURSOR = /^[1-9]\d{0,7}$/;
const WRONG_CURSOR = "must be the cursor of a page";

/**
 * Reads a query.
 * @param location of it in the request, for problems
 * @throws KeystileError BAD_REQUEST with every problem
 */
export function planQuery(given: unknown, location = "query"): Plan {
  if (!isPlainObject(given))
    throw badRequest([
      {
        location,
        message: "must be an object",
        fix: 'send { "by": ["day"], "from": 1793491200000, "to": 1796083200000 }',
      },
    ]);
  const query = Object.assign({ __proto__: null }, given) as Partial<Record<string, unknown>>;
  const problems: ValidationProblem[] = [];
  const wrong = (name: string, message: string, fix?: string): void =>
    void problems.push({ location: `${location}.${name}`, message, ...(fix !== undefined && { fix }) });
  const names = Object.keys(query).filter((name) => !FIELDS.includes(name));
  if (names.length > 0) problems.push({ location, message: `must have no other fields than ${FIELDS.join(", ")}` });
  const by = readBy(query["by"] ?? [], wrong);
  const where = readWhere(Object.hasOwn(query, "where") ? query["where"] : {}, wrong);
  const [from, to] = (["from", "to"] as const).map((name) => {
    const fault = explainLate(query[name]);
    if (fault !== undefined) wrong(name, fault.message, fault.fix);
    else if (!isInteger(query[name], -MAX_DATE_MS, MAX_DATE_MS)) wrong(name, "must be Unix time in milliseconds");
    return query[name];
  }) as [number, number];
  if (from >= to && problems.length === 0) wrong("to", "must be after from");
  const { order = "time", limit = 1_000, cursor } = query;
  if (!ORDERS.includes(order as string)) wrong("order", `must be one of: ${ORDERS.join(", ")}`);
  if (!isInteger(limit, 1, MAX_LIMIT)) wrong("limit", `must be an integer from 1 to ${MAX_LIMIT}`);
  if (cursor !== undefined && !(typeof cursor === "string" && CURSOR.test(cursor))) wrong("cursor", WRONG_CURSOR);
  if (problems.length > 0) throw badRequest(problems);
  return {
    ...compile(by, where, from, to),
    ...{ by, outcomes: where.outcome as readonly VerificationCode[] | undefined, tags: where.tag },
    ...{ order: order as Plan["order"], limit: limit as number, skip: Number(cursor ?? 0) },
  };
}

type Filters = { readonly [F in (typeof FILTERS)[number]]?: readonly string[] };

function compile(
  by: readonly AnalyticsDimension[],
  { keyId, externalId, apiId, tag }: Filters,
  from: number,
  to: number,
): Pick<Plan, "query" | "period"> {
  const period = by.find((name) => PERIODS.includes(name)) as AnalyticsPeriod | undefined;
  const level: OutcomeLevel = period === "minute" || period === "hour" ? period : "day";
  const dimensions: OutcomeDimension[] = period === undefined ? [] : ["time"];
  for (const name of ["apiId", "keyId", "externalId"] as const) if (by.includes(name)) dimensions.push(name);
  if (tag !== undefined || by.some((name) => name.startsWith("tag"))) dimensions.push("tags");
  const step = LEVELS[level];
  const query = {
    ...{ level, by: dimensions, from: Math.floor(from / step) * step, to: Math.ceil(to / step) * step },
    ...(keyId !== undefined && { keyIds: keyId }),
    ...(externalId !== undefined && { externalIds: externalId }),
    ...(apiId !== undefined && { apiIds: apiId }),
  };
  return { query, period };
}

type Wrong = (name: string, message: string) => void;

function readBy(given: unknown, wrong: Wrong): readonly AnalyticsDimension[] {
  const names = readTexts(given, MAX_DIMENSIONS);
  if (names === undefined) return (wrong("by", `must be a list of at most ${MAX_DIMENSIONS} texts`), []);
  const known = (name: string) => DIMENSIONS.includes(name) || PERIODS.includes(name) || /^tag:./s.test(name);
  if (!names.every(known))
    wrong("by", `must be of ${[...PERIODS, ...DIMENSIONS].join(", ")}, or tag: and the name of a tag`);
  if (new Set(names).size < names.length) wrong("by", "must not repeat itself");
  if (names.filter((name) => PERIODS.includes(name)).length > 1) wrong("by", "must have at most one period");
  return names as AnalyticsDimension[];
}

function readWhere(given: unknown, wrong: Wrong): Filters {
  if (!isPlainObject(given)) return (wrong("where", "must be an object"), {});
  const filters: Record<string, readonly string[]> = {};
  for (const [name, value] of Object.entries(given)) {
    const texts = readTexts(value, MAX_VALUES);
    if (!(FILTERS as readonly string[]).includes(name))
      wrong("where", `must have no other fields than ${FILTERS.join(", ")}`);
    else if (texts === undefined) wrong(`where.${name}`, `must be a list of at most ${MAX_VALUES} texts`);
    else if (name === "outcome" && !texts.every((text) => (OUTCOMES as readonly string[]).includes(text)))
      wrong("where.outcome", `must be of ${OUTCOMES.join(", ")}`);
    else filters[name] = texts;
  }
  return filters;
}

function readTexts(given: unknown, most: number): readonly string[] | undefined {
  if (!Array.isArray(given) || given.length > most) return undefined;
  const texts: unknown[] = Array.from(given);
  return texts.every((text) => typeof text === "string" && text.length <= MAX_TEXT && text.isWellFormed())
    ? (texts as string[])
    : undefined;
}

const isInteger = (value: unknown, min: number, max: number): boolean =>
  Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;
