/** Why calls were refused: how many by code and hour, and of a key the last ones with what decided. */
import { badRequest } from "../contracts/errors.js";
import { OUTCOMES, type Refusal } from "../contracts/outcomes.js";
import type { Store } from "../contracts/store.js";
import { planQuery } from "./query.js";
import { type Bounds, readRows } from "./rows.js";

/** Whose refusals: those of a key, of all keys of an owner, or of an API. Exactly one of the three. */
export interface RefusalsOf {
  readonly keyId?: string;
  /** Of the owner. */
  readonly externalId?: string;
  readonly apiId?: string;
}
/** From when to when. */
export interface RefusalsRange {
  /** Unix time, milliseconds, moved back to the whole hour. Default: 24 hours before `to`. */
  readonly from?: number | undefined;
  /** Unix time, milliseconds, moved out to the whole hour. Default: now. */
  readonly to?: number | undefined;
}
/** Refusals of one code in one hour. */
export interface RefusedHour {
  /** Start of the hour, Unix time in milliseconds. */
  readonly time: number;
  readonly code: Refusal["code"];
  readonly count: number;
}
/** What was refused. */
export interface Refusals {
  /** By time and then by code; hours without refusals are left out. Kept for 14 days unless the verifiers say other. */
  readonly hours: readonly RefusedHour[];
  /**
   * Of a key: its last refusals in these hours, at most 10, newest first. Counts are exact, these are samples: with
   * very many keys refused at once some are left out. Empty where none is kept, and of an owner or an API.
   */
  readonly last: readonly Refusal[];
}

const HOUR = 3_600_000;
const REFUSED = OUTCOMES.filter((code): code is Refusal["code"] => code !== "VALID" && code !== "NOT_FOUND");
const NAMES: readonly string[] = ["keyId", "externalId", "apiId"] satisfies (keyof RefusalsOf)[];

/** @throws (rejects with) KeystileError BAD_REQUEST · ANALYTICS_TOO_LARGE · STORE_… */
export async function readRefusals(
  store: Pick<Store, "readOutcomes" | "readRefusals" | "powers">,
  workspaceId: string,
  request: RefusalsOf & RefusalsRange,
  { now, location, ...bounds }: Bounds & { readonly now: number; readonly location: string },
): Promise<Refusals> {
  const { to = now + 1, from = to - 24 * HOUR, ...of } = request;
  const [[name, id] = ["", undefined], ...others] = Object.entries<unknown>(of);
  // Undefined counts: the program lost a value.
  if (others.length > 0 || typeof id !== "string" || !NAMES.includes(name))
    throw badRequest([{ location, message: "must have exactly one of keyId, externalId and apiId" }]);
  const where = { outcome: REFUSED, [name]: [id] };
  const plan = planQuery({ by: ["hour", "outcome"], where, from, to }, location);
  const rows = await readRows(store, workspaceId, bounds, plan);
  const hours = rows.map(({ time, outcome, count }) => ({ time, code: outcome, count }) as RefusedHour);
  const isKept = name === "keyId" && store.powers.refusals === true;
  const last = isKept ? await store.readRefusals!({ workspaceId, keyId: id }) : [];
  const { query } = plan;
  return { hours, last: last.filter(({ time }) => time >= query.from && time < query.to) };
}
