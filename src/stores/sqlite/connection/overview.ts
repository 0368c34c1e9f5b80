/**
 * The view `keystile_key_overview`: a row for each key, for people who ask in SQL. Part of the file format. Credits are
 * those that the key draws on: keys of one identity may share them.
 *
 * Why a view and not stored columns: the balance as of now counts refills that are due and reserves that have expired,
 * and both depend on the time of the question.
 */
import { ABANDONED, MAX_BALANCE } from "../../../credits/account.js";

/** Calendar counts at the moment of the question; see `src/credits/refill-calendar.ts`. */
const NOW = `
  SELECT unix, unix / 86400 AS day,
    (CAST(strftime('%Y', unix, 'unixepoch') AS INTEGER) - 1970) * 12 + CAST(strftime('%m', unix, 'unixepoch') AS INTEGER) - 1 AS month,
    CAST(strftime('%d', unix, 'unixepoch') AS INTEGER) AS day_of_month,
    strftime('%m', unix, 'unixepoch') <> strftime('%m', unix + 86400, 'unixepoch') AS is_last_day
  FROM (SELECT CAST(strftime('%s', 'now') AS INTEGER) AS unix)`;

/** Refills due by now: at most 400 daily or 24 monthly ones. */
const DUE = `
  CASE WHEN a.period / 1000000000 = 32 THEN min(400, max(0, t.day - a.period % 1000000000))
    WHEN a.period / 1000000000 BETWEEN 1 AND 31 THEN min(24, max(0,
      t.month + (t.day_of_month >= a.period / 1000000000 OR t.is_last_day) - a.period % 1000000000))
    ELSE 0 END`;

const EXPIRED = `
  coalesce((SELECT sum(l.reserved) FROM keystile_leases l
    WHERE l.account = a.number AND l.generation = a.generation AND l.expires <= t.unix * 1000), 0)`;
function expiredOf(which: string): string {
  return EXPIRED.replace("<= t.unix * 1000", `<= t.unix * 1000 AND ${which}`);
}

const names = (table: string, ids: string) =>
  `(SELECT group_concat(name, ' ') FROM (SELECT DISTINCT name FROM keystile_${table} WHERE id IN (${ids}) ORDER BY name))`;
const DIRECT = "SELECT value FROM json_each(nullif(k.grants, ''), '$[0]')";
const ROLES = "SELECT value FROM json_each(nullif(k.grants, ''), '$[1]')";
const OF_ROLES = `SELECT p.value FROM keystile_roles r, json_each(r.body, '$.permissions') p WHERE r.id IN (${ROLES})`;

/** How the view counts credits. */
interface Columns {
  readonly isLimited: string;
  readonly credits: string;
  readonly forfeited: string;
}
const FIRST: Columns = {
  isLimited: `a.unlimited = 0 AND a.period < ${ABANDONED}`,
  credits: `min(${MAX_BALANCE}, a.remaining + min(a.amount * ${DUE}, ${MAX_BALANCE} - a.remaining) + ${EXPIRED})`,
  forfeited: "a.forfeited",
};
/**
 * With rollovers: reserves of before the last boundary that have expired return as far as the rollover has space.
 * Refills that are hourly, weekly or of a time zone count once a call has counted them.
 */
const CURRENT: Columns = {
  isLimited: `a.unlimited = 0 AND a.period <> ${ABANDONED}`,
  credits: withRollover(
    `(a.remaining + ${expiredOf("l.rollovers = a.rollovers")} + min(a.returnable, ${expiredOf("l.rollovers = a.rollovers - 1")}))`,
  ),
  forfeited: "a.forfeited - a.expired",
};

function withRollover(had: string): string {
  return `iif(a.rollover IS NULL OR ${DUE} = 0, min(${MAX_BALANCE}, ${had} + min(a.amount * ${DUE}, ${MAX_BALANCE})),
      min(${MAX_BALANCE}, min(${had} + a.amount * (${DUE} - 1), a.rollover) + a.amount))`;
}
/** The account that a key `k` of an identity `i` draws on. */
const ACCOUNT = `iif(json_extract(i.body, '$.hasCredits') AND json_extract(k.body, '$.limited') IS NULL
    AND coalesce(json_extract(k.body, '$.creditsFrom'), '') <> 'none', -i.number, coalesce(k.account, k.number))`;

/** @param more columns after those that it had at first */
const createOverview = (more: string, { isLimited, credits, forfeited }: Columns) => `
  CREATE VIEW keystile_key_overview AS
  WITH t AS (${NOW})
  SELECT k.id AS key_id,
    json_extract(k.body, '$.name') AS name,
    json_extract(k.body, '$.start') AS start,
    p.workspace_id,
    p.id AS api_id,
    json_extract(p.body, '$.name') AS api_name,
    i.name AS external_id,
    json_extract(k.body, '$.disabled') IS NULL AS enabled,
    k.deleted,
    strftime('%Y-%m-%dT%H:%M:%fZ', json_extract(k.body, '$.createdAt') / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', json_extract(k.body, '$.expires') / 1000.0, 'unixepoch') AS expires,
    ${names("permissions", `${DIRECT} UNION ${OF_ROLES}`)} AS permissions,
    ${names("roles", ROLES)} AS roles,
    iif(${isLimited}, ${credits}, NULL) AS credits,
    iif(${isLimited}, a.reserved - ${EXPIRED}, NULL) AS credits_leased,
    a.spent AS credits_spent,
    ${forfeited} AS credits_forfeited${more}
  FROM keystile_keys k
  CROSS JOIN t
  JOIN keystile_apis p ON p.number = k.api
  LEFT JOIN keystile_identities i ON i.number = k.identity
  LEFT JOIN keystile_accounts a ON a.number = ${ACCOUNT}`;

export const CREATE_OVERVIEW = createOverview("", FIRST);

/** Adds the key that replaced one, so that questions can leave out what is rotated. */
const SUCCESSOR = ", json_extract(k.body, '$.rerolledTo') AS rerolled_to";
export const SHOW_SUCCESSORS = {
  up: `DROP VIEW keystile_key_overview;
    ${createOverview(SUCCESSOR, FIRST)}`,
  down: `DROP VIEW keystile_key_overview; ${CREATE_OVERVIEW}`,
  refuses: {},
};

const EXPIRED_CREDITS = `${SUCCESSOR}, a.expired AS credits_expired`;
/** Adds what expired, and counts rollovers. */
export const SHOW_EXPIRED = {
  up: `DROP VIEW keystile_key_overview;
    ${createOverview(EXPIRED_CREDITS, CURRENT)}`,
  down: SHOW_SUCCESSORS.up,
};

const OWNER_STATE = `${EXPIRED_CREDITS},
    iif(i.number IS NULL, NULL, coalesce(json_extract(i.body, '$.enabled'), 1)) AS owner_enabled,
    strftime('%Y-%m-%dT%H:%M:%fZ', json_extract(i.body, '$.expires') / 1000.0, 'unixepoch') AS owner_expires`;
/** Adds whether the identity is enabled, and until when its keys are valid. */
export const SHOW_OWNER_STATES = {
  up: `DROP VIEW keystile_key_overview;
    ${createOverview(OWNER_STATE, CURRENT)}`,
  down: SHOW_EXPIRED.up,
  refuses: {},
};
