/** Searches and counts keys, a slice at a time. Store clause 29. */
import type { KeyCount, KeyCounts, KeyHints, KeyRow, KeySearch, KeySlice } from "../../contracts/store.js";
import { plainPartOf } from "../codec/search-part.js";
import type { Session, Statement } from "./client.js";
import { type KeyText, KEY_COLUMNS } from "./keys.js";
import { fieldOf, isStorable } from "./texts.js";

/** Indexes deleted keys by API. `down` cuts `deletedAt` and `deletedBy` off each body, whose last fields they are. */
export const LIST_DELETED = {
  up: (s: string): string => `CREATE INDEX keys_deleted ON ${s}.keys (api_id, id) WHERE deleted;`,
  down: (s: string): string => String.raw`DROP INDEX ${s}.keys_deleted;
    UPDATE ${s}.keys SET body = regexp_replace(body,
      E'(,"deletedAt":-?[0-9]+)?(,"deletedBy":"([^"\\\\]|\\\\.)*")?\\}$', '}') WHERE deleted;`,
  refuses: {},
} as const;

/** When the identity `i` expires, milliseconds. */
const OWNER_EXPIRES = `CASE WHEN i.body LIKE '%"expires":%'::text THEN ${fieldOf("i", "expires")}::bigint END`;

/** Identities may be disabled and expire. No table changes: `refuses` keeps versions away that would let keys in. */
export const OWNER_STATES = {
  up: (): string => "",
  down: (): string => "",
  refuses: {
    "identities that are disabled or expire": (s: string): string =>
      `SELECT count(*) FROM ${s}.entities i WHERE kind = 'identities'
        AND (${fieldOf("i", "enabled")} = 'false' OR ${fieldOf("i", "expires")} IS NOT NULL)`,
  },
} as const;

/** Greater than every number. */
const AFTER_ALL_NUMBERS = "9223372036854775807";
/** Greater than every id. */
const AFTER_ALL = "\u{10FFFF}";
/** A time of milliseconds as keys have it; of NULL the other. */
export const timeOf = (parameter: string, other: string): string =>
  `coalesce(pg_catalog.to_timestamp(${parameter}::text::double precision / 1000::double precision), '${other}'::timestamptz)`;

/** How keys are walked in each order. `x` is a key and `b` the place before which all are known. */
const ORDERS = {
  newest: { after: "k.id < $3", by: "id DESC", until: "x.id >= b.id", start: AFTER_ALL },
  expires: {
    after: `k.expires IS NOT NULL AND (k.expires, k.id) > (${timeOf("$4", "-infinity")}, $3)`,
    by: "expires, id",
    until: "(x.expires, x.id) <= (b.expires, b.id)",
    start: "",
  },
} as const;
type Order = keyof typeof ORDERS;

const APIS = "pg_catalog.jsonb_array_elements_text($2::text::jsonb)";

/** What a key `k` with its identity `i` may have to match: $8 text, $9 enabled, $10 to $13 expiry, use and credits. */
const matching = (schema: string): string => `($8::text IS NULL OR pg_catalog.strpos(
    pg_catalog.lower((k.id || ' ' || k.start || ' ' || coalesce(k.name, '') || ' ' || coalesce(i.name, '')) COLLATE "C"), $8) > 0)
  AND ($9::text IS NULL OR k.enabled = $9::text::boolean)
  AND ($10::text IS NULL OR k.expires < ${timeOf("$10", "infinity")} OR ${OWNER_EXPIRES} < $10::text::bigint)
  AND ($11::text IS NULL OR coalesce(k.expires, 'infinity'::timestamptz) >= ${timeOf("$11", "infinity")})
  AND ($12::text IS NULL OR k.last_used_at >= $12::text::bigint)
  AND ($13::text IS NULL OR EXISTS (
    -- Which of the two it draws on is looked at next.
    SELECT FROM ${schema}.accounts a WHERE a.number IN (coalesce(k.account, k.number), i.account)
      AND NOT a.unlimited AND a.remaining < $13::text::bigint))`;

/** $1 workspace, $2 APIs, $3 and $4 the position, $5 keys of each API, $6 of all, $7 those returned, $8 … hints. */
function searching(schema: string, order: Order, deleted: string, ofIdentity: boolean): Statement {
  const { after, by, until } = ORDERS[order];
  const next = (condition: string) =>
    `SELECT k.number, k.id, k.expires FROM ${schema}.keys k
     WHERE ${condition} AND k.workspace_id = $1 AND ${deleted} AND ($4::text IS NULL OR true) AND ${after}
     ORDER BY ${by} LIMIT $5::text::bigint`;
  // With LIMIT, PostgreSQL knows how many APIs there are: it takes a list to have a hundred, and then compiled the
  // statement, which took ten times as long as running it.
  const streams = ofIdentity
    ? `SELECT y.*, pg_catalog.row_number() OVER (ORDER BY ${by}) AS place
       FROM (${next(`k.identity_id = $14 AND k.api_id IN (SELECT ${APIS})`)}) y`
    : `SELECT y.*, pg_catalog.row_number() OVER (PARTITION BY a.api ORDER BY ${by}) AS place
       FROM (SELECT ${APIS} AS api LIMIT pg_catalog.jsonb_array_length($2::text::jsonb)) a CROSS JOIN LATERAL (${next("k.api_id = a.api")}) y`;
  return {
    isRead: true,
    text: `WITH streams AS MATERIALIZED (${streams}),
      bound AS MATERIALIZED (
        SELECT id, expires FROM streams WHERE place = $5::text::bigint ORDER BY ${by} LIMIT 1
      ),
      sure AS MATERIALIZED (
        SELECT x.number, x.id, x.expires, pg_catalog.row_number() OVER (ORDER BY ${by}) AS place FROM streams x
        WHERE NOT EXISTS (SELECT FROM bound) OR EXISTS (SELECT FROM bound b WHERE ${until})
      ),
      places AS MATERIALIZED (SELECT * FROM sure WHERE place <= $6::text::bigint),
      hits AS MATERIALIZED (
        -- Each by its number: a merge join would read all keys.
        SELECT s.place, ${KEY_COLUMNS} FROM places s
        CROSS JOIN LATERAL (SELECT * FROM ${schema}.keys x WHERE x.number = s.number LIMIT 1) k
        LEFT JOIN ${schema}.entities i ON i.kind = 'identities' AND i.id = k.identity_id
        WHERE ${matching(schema)}
        ORDER BY s.place LIMIT $7::text::bigint
      ),
      -- What is returned last is looked at last.
      looked AS MATERIALIZED (
        SELECT * FROM places WHERE (SELECT pg_catalog.count(*) FROM hits) < $7::text::bigint
          OR place <= (SELECT pg_catalog.max(place) FROM hits)
      )
      SELECT (SELECT pg_catalog.count(*) FROM looked)::text AS looked, l.id AS last,
        (extract(epoch FROM l.expires) * 1000::numeric)::bigint::text AS expires,
        (EXISTS (SELECT FROM bound) OR (SELECT pg_catalog.count(*) FROM sure) > l.place)::text AS more, h.*
      FROM (SELECT 1) one LEFT JOIN (SELECT * FROM looked ORDER BY place DESC LIMIT 1) l ON true LEFT JOIN hits h ON true
      ORDER BY h.place`,
  };
}

/** Keys of an account `a`: those that it is of, and those of the identity that it is of. */
const drawing = (s: string): string => `(
    SELECT k.number FROM ${s}.keys k WHERE k.number = a.number
    UNION ALL SELECT k.number FROM ${s}.keys k WHERE k.account = a.number
    UNION ALL SELECT k.number FROM ${s}.entities i JOIN ${s}.keys k ON k.identity_id = i.id
      WHERE i.account = a.number AND i.kind = 'identities')`;

/**
 * Keys with few credits, or used lately, from the highest number of an account, or of a key, down. Parameters as of
 * {@link searching}: $3 and $4 are numbers of the account and of the key, $5 how many to look at, $6 that of an id.
 */
const searchingAny = (s: string, by: "credits" | "uses"): Statement => ({
  isRead: true,
  text: `WITH slice AS MATERIALIZED (
      ${
        by === "credits"
          ? `SELECT number, CASE WHEN unlimited THEN NULL ELSE remaining END AS value FROM ${s}.accounts`
          : `SELECT number, last_used_at AS value FROM ${s}.keys`
      } WHERE number <= $3::text::bigint ORDER BY number DESC LIMIT $5::text::bigint
    ), hits AS MATERIALIZED (
      SELECT a.number AS at, ${KEY_COLUMNS} FROM slice a
      CROSS JOIN LATERAL ${by === "credits" ? drawing(s) : "(SELECT a.number)"} x
      JOIN ${s}.keys k ON k.number = x.number
      LEFT JOIN ${s}.entities i ON i.kind = 'identities' AND i.id = k.identity_id
      WHERE ${by === "credits" ? "a.value < $13::text::bigint" : "a.value >= $12::text::bigint"}
        AND (a.number, k.number) < ($3::text::bigint, $4::text::bigint)
        AND (${by === "credits" ? "a.value < $13::text::bigint - 1" : "a.value > $12::text::bigint"} OR k.id > $6)
        AND k.workspace_id = $1 AND NOT k.deleted AND k.api_id IN (SELECT ${APIS}) AND ${matching(s)}
      ORDER BY a.number DESC, k.number DESC LIMIT $7::text::bigint
    )
    SELECT one.looked::text, one.least::text AS last, h.* FROM (
      SELECT pg_catalog.count(*) AS looked, pg_catalog.min(number) AS least FROM slice
    ) one LEFT JOIN hits h ON true ORDER BY h.at DESC, h.n::bigint DESC`,
});

/** @param rowsOf decodes keys */
export function createSearch(
  session: Session,
  schema: string,
  rowsOf: (texts: readonly KeyText[]) => Promise<KeyRow[]>,
) {
  const statementsOf = (order: Order, deleted = "NOT k.deleted") =>
    [searching(schema, order, deleted, false), searching(schema, order, deleted, true)] as const;
  const searches = {
    ...{ newest: statementsOf("newest"), expires: statementsOf("expires") },
    deleted: statementsOf("newest", "k.deleted"),
  };
  const any = { credits: searchingAny(schema, "credits"), uses: searchingAny(schema, "uses") };
  const searchAny = async ({ workspaceId, apiIds, after, among, limit, mayMatch }: KeySearch): Promise<KeySlice> => {
    const [account = AFTER_ALL_NUMBERS, key = AFTER_ALL_NUMBERS] = after?.id.split(" ") ?? [];
    const rows = (await session.run(
      mayMatch.creditsBelow === undefined ? any.uses : any.credits,
      ...[workspaceId, JSON.stringify(apiIds), account, key, String(among), mayMatch.idAbove ?? "", String(limit)],
      ...hintsOf(mayMatch),
    )) as readonly object[] as readonly (KeyText & Pick<Walked, "looked" | "last"> & { readonly at: string })[];
    const found = rows.filter(({ n }) => n !== null);
    const keys = await rowsOf(found);
    const slice = { keys, looked: keys.length };
    const end = found.at(-1);
    if (end !== undefined && found.length === limit) return { ...slice, last: { id: `${end.at} ${end.n}` } };
    const isWhole = Number(rows[0]?.looked) < among;
    return isWhole ? slice : { ...slice, last: { id: String(BigInt(rows[0]?.last ?? 0) - 1n) } };
  };
  const counting: Statement = {
    isRead: true,
    text: `SELECT pg_catalog.count(*)::text AS total, pg_catalog.count(*) FILTER (WHERE NOT k.enabled)::text AS disabled,
        pg_catalog.count(*) FILTER (WHERE k.enabled AND (k.expires < ${timeOf("$5", "infinity")}
          OR ${OWNER_EXPIRES} < $5::text::bigint))::text AS expired,
        pg_catalog.max(k.id) AS last
      FROM (SELECT id, enabled, expires, identity_id FROM ${schema}.keys
        WHERE api_id = $2 AND workspace_id = $1 AND NOT deleted AND id > $3 ORDER BY id LIMIT $4::text::bigint) k
      LEFT JOIN ${schema}.entities i ON i.kind = 'identities' AND i.id = k.identity_id`,
  };
  return {
    async searchKeys(search: KeySearch): Promise<KeySlice> {
      const { workspaceId, apiIds, identityId, order, deleted, after, among, limit, mayMatch } = search;
      const given = [workspaceId, after?.id ?? "", identityId ?? "", ...apiIds];
      if (!given.every(isStorable)) return { keys: [], looked: 0 };
      if (order === "any") return searchAny(search);
      const each = apiIds.length > 1 && identityId === undefined ? Math.ceil(among / apiIds.length) + 1 : among;
      const rows = (await session.run(
        searches[deleted ? "deleted" : order][identityId === undefined ? 0 : 1],
        workspaceId,
        JSON.stringify(apiIds),
        after?.id ?? ORDERS[order].start,
        orNull(after?.expires),
        String(each),
        String(among),
        String(limit),
        ...hintsOf(mayMatch),
        ...(identityId === undefined ? [] : [identityId]),
      )) as readonly object[] as readonly (KeyText & Walked)[];
      const [first] = rows;
      const keys = await rowsOf(rows.filter(({ n }) => n !== null));
      const looked = Number(first?.looked);
      const { last = null, expires = null, more } = first ?? {};
      if (last === null || more !== "true") return { keys, looked };
      return { keys, looked, last: order === "expires" ? { id: last, expires: Number(expires) } : { id: last } };
    },
    async countKeys({ workspaceId, apiId, after = "", among, now }: KeyCount): Promise<KeyCounts> {
      if (![workspaceId, apiId, after].every(isStorable)) return { total: 0, disabled: 0, expired: 0 };
      const [row] = await session.run(counting, workspaceId, apiId, after, String(among), String(now));
      const { total, disabled, expired, last } = row as Readonly<Record<string, string | null>>;
      const isWhole = Number(total) < among || last === null;
      return {
        total: Number(total),
        disabled: Number(disabled),
        expired: Number(expired),
        ...(!isWhole && { last: last as string }),
      };
    },
  };
}

/** What each row says of the slice. */
interface Walked {
  readonly looked: string;
  readonly last: string | null;
  readonly expires: string | null;
  readonly more: string | null;
}

/** $8 to $13. */
function hintsOf({ text, enabled, expiresBefore, expiresFrom, usedFrom, creditsBelow }: KeyHints): (string | null)[] {
  return [
    text === undefined ? null : plainPartOf(text),
    ...[enabled, expiresBefore, expiresFrom, usedFrom, creditsBelow].map(orNull),
  ];
}

function orNull(value: number | boolean | undefined): string | null {
  return value === undefined ? null : String(value);
}
