/**
 * Tables and functions of the counts of verifications. Store clause 28.
 *
 * Why NULL for 0: a row of a key has one or two counts that are not, and takes 93 bytes instead of 150.
 */
import { countRows, forgetCounts } from "./counted-sql.js";
import { MAX_REFUSALS } from "../../contracts/outcomes.js";
import { COUNT_COLUMNS, DAY, NO_TAGS, OTHER_TAGS, TOTALS } from "../outcome-entries.js";

/** A minute is not kept: each level is one more write for every count. */
export const KEPT_LEVELS = ["hour", "day"] as const;
const SUMS = [...TOTALS, "balance"];

const FIELDS = "bucket bigint, ws text, total bigint, key text, ext text, api text, account bigint, tags text, n jsonb";
const SUBJECT = "workspace_id, is_total, key_id, external_id, api_id, account";

const tables = (s: string): string => `
CREATE TABLE ${s}.subjects (
  number bigint PRIMARY KEY DEFAULT nextval('${s}.key_numbers'),
  workspace_id text COLLATE "C" NOT NULL,
  is_total bigint NOT NULL,
  key_id text COLLATE "C" NOT NULL,
  external_id text COLLATE "C" NOT NULL,
  api_id text COLLATE "C" NOT NULL,
  account bigint NOT NULL,
  UNIQUE (${SUBJECT})
);
CREATE INDEX subjects_of_owner ON ${s}.subjects (workspace_id, external_id) WHERE external_id <> '';
CREATE TABLE ${s}.tag_sets (
  number bigint PRIMARY KEY DEFAULT nextval('${s}.key_numbers'),
  workspace_id text COLLATE "C" NOT NULL,
  tags text COLLATE "C" NOT NULL
);
-- A set may be longer than an index takes.
CREATE UNIQUE INDEX tag_sets_by_hash ON ${s}.tag_sets (workspace_id, hashtextextended(tags, 0), hashtextextended(tags, 1));
${KEPT_LEVELS.map(
  (level) => `CREATE TABLE ${s}.outcomes_${level} (
  bucket bigint NOT NULL,
  subject bigint NOT NULL,
  tag_set bigint NOT NULL,
  ${COUNT_COLUMNS.map((name) => `${name} bigint`).join(", ")},
  PRIMARY KEY (bucket, subject, tag_set)
) WITH (fillfactor = 80);`,
).join("\n")}
CREATE TABLE ${s}.flushes (source text COLLATE "C" PRIMARY KEY, seq bigint NOT NULL, at bigint NOT NULL);
-- external_id is NULL where the account is nobody's from then on.
CREATE TABLE ${s}.credit_days (
  account bigint NOT NULL,
  seq bigint NOT NULL,
  day bigint NOT NULL,
  workspace_id text COLLATE "C",
  external_id text COLLATE "C",
  ${SUMS.map((name) => `${name} bigint NOT NULL`).join(", ")},
  PRIMARY KEY (account, seq),
  CHECK (credited + refilled + adjusted = spent + forfeited + balance)
);
CREATE INDEX credit_days_of_owner ON ${s}.credit_days (workspace_id, external_id) WHERE external_id <> '';
CREATE INDEX credit_days_by_age ON ${s}.credit_days (day);
`;

/**
 * Keeps totals of accounts, and names those that writes concern. Under a lock of each account, in the order of their
 * numbers: a row ends where the owner changes, and two that number the next row at once would make one of two.
 */
const totals = (s: string): string => `
CREATE FUNCTION ${s}.keep_totals_v1(numbers bigint[], today bigint) RETURNS void LANGUAGE plpgsql AS $fn$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('${s} ' || n, 7235928)) FROM (SELECT DISTINCT unnest(numbers) AS n ORDER BY 1) x;
  INSERT INTO ${s}.credit_days AS x
    SELECT g.n, coalesce(l.seq + (l.day < today OR l.external_id IS DISTINCT FROM o.name)::integer, 1), greatest(today, l.day), o.ws, o.name,
      ${TOTALS.map((name) => `coalesce(a.${name}, l.${name})`).join(", ")}, coalesce(a.remaining + a.reserved, l.balance)
    FROM (SELECT DISTINCT unnest(numbers) AS n) g
    LEFT JOIN LATERAL (SELECT * FROM ${s}.credit_days d WHERE d.account = g.n ORDER BY d.seq DESC LIMIT 1) l ON true
    LEFT JOIN LATERAL (
${ownerOf(s, "g.n", "i.account = g.n")}
    ) o ON true
    LEFT JOIN ${s}.accounts a ON a.number = g.n
    WHERE a.number IS NOT NULL OR l.external_id IS NOT NULL
  ON CONFLICT (account, seq) DO UPDATE SET ${SUMS.map((name) => `${name} = excluded.${name}`).join(", ")};
END $fn$;

CREATE FUNCTION ${s}.concerned_v1(writes jsonb) RETURNS bigint[] LANGUAGE sql STABLE AS $fn$
  WITH w AS (SELECT e ->> 'table' AS kind, coalesce(e ->> 'remove', e #>> '{row,id}') AS id FROM jsonb_array_elements(writes) e)
  SELECT array_agg(n) FROM (
    SELECT coalesce(k.account, k.number) AS n FROM w JOIN ${s}.keys k ON k.id = w.id WHERE w.kind = 'keys'
    UNION SELECT i.account FROM w JOIN ${s}.entities i ON i.kind = w.kind AND i.id = w.id WHERE w.kind = 'identities' AND i.account IS NOT NULL
  ) x
$fn$;
`;

const SAME_TAGS = (name: string, tags: string): string =>
  `${name}.workspace_id = e.ws AND hashtextextended(${name}.tags, 0) = hashtextextended(${tags} COLLATE "C", 0)
    AND hashtextextended(${name}.tags, 1) = hashtextextended(${tags} COLLATE "C", 1) AND ${name}.tags = ${tags}`;
const SAME_SUBJECT = `u.workspace_id = e.ws AND u.is_total = e.total AND u.key_id = e.key AND u.external_id = e.ext
    AND u.api_id = e.api AND u.account = e.account`;

/** In the order of the keys, so that nodes that count the same rows wait for each other, and none in a circle. */
const countLevel = (s: string, level: string): string => `
  INSERT INTO ${s}.outcomes_${level} AS x
    SELECT e.bucket, u.number, coalesce(t.number, r.number),
      ${COUNT_COLUMNS.map((_, i) => `nullif(sum((e.n ->> ${i})::bigint)::bigint, 0)`).join(", ")}
    FROM jsonb_to_recordset(f -> '${level}') AS e(${FIELDS})
    JOIN ${s}.subjects u ON ${SAME_SUBJECT}
    LEFT JOIN ${s}.tag_sets t ON ${SAME_TAGS("t", "e.tags")}
    JOIN ${s}.tag_sets r ON ${SAME_TAGS("r", `'${OTHER_TAGS}'`)}
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
  ON CONFLICT (bucket, subject, tag_set) DO UPDATE SET
    ${COUNT_COLUMNS.map((name) => `${name} = nullif(coalesce(x.${name}, 0) + coalesce(excluded.${name}, 0), 0)`).join(", ")};`;

const DECLARED = `
  f jsonb := given::jsonb;
  id text := f ->> 'source';
  n bigint := (f ->> 'seq')::bigint;
  made bigint := (f ->> 'at')::bigint;`;
const advance = (s: string): string => `
  INSERT INTO ${s}.flushes AS x (source, seq, at)
    SELECT id, n, made WHERE n = 1 OR EXISTS (SELECT 1 FROM ${s}.flushes o WHERE o.source = id)
  ON CONFLICT (source) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE x.seq = excluded.seq - 1;`;
const notCounted = (s: string): string =>
  `CASE WHEN coalesce((SELECT o.seq FROM ${s}.flushes o WHERE o.source = id), 0) >= n THEN 'repeated' ELSE 'gap' END`;
const addUp = (s: string): string => `${KEPT_LEVELS.map((level) => countLevel(s, level)).join("")}
  PERFORM ${s}.keep_totals_v1(ARRAY(SELECT jsonb_array_elements_text(f -> 'accounts')::bigint), made / ${DAY});`;

/** Each statement sees what others committed before it, and so the subjects that it waited for. */
const count = (s: string): string => `
CREATE FUNCTION ${s}.count_outcomes_v1(given text) RETURNS text LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE${DECLARED}
BEGIN${advance(s)}
  IF NOT FOUND THEN
    RETURN ${notCounted(s)};
  END IF;
  INSERT INTO ${s}.subjects (${SUBJECT})
    SELECT DISTINCT e.ws, e.total, e.key, e.ext, e.api, e.account FROM jsonb_to_recordset(f -> 'day') AS e(${FIELDS})
    WHERE NOT EXISTS (SELECT 1 FROM ${s}.subjects u WHERE ${SAME_SUBJECT}) ORDER BY 1, 2, 3, 4, 5, 6
  ON CONFLICT DO NOTHING;
  INSERT INTO ${s}.tag_sets (workspace_id, tags)
    SELECT e.ws, e.tags FROM (
      SELECT d.ws, d.tags, row_number() OVER (PARTITION BY d.ws ORDER BY d.tags) AS place FROM (
        SELECT DISTINCT e.ws, e.tags FROM jsonb_to_recordset(f -> 'day') AS e(${FIELDS})
        WHERE NOT EXISTS (SELECT 1 FROM ${s}.tag_sets t WHERE ${SAME_TAGS("t", "e.tags")})
      ) d
    ) e WHERE e.place + (SELECT count(*) FROM ${s}.tag_sets t WHERE t.workspace_id = e.ws) <= (f ->> 'maxTagSets')::bigint
    UNION SELECT DISTINCT e.ws, '${OTHER_TAGS}' FROM jsonb_to_recordset(f -> 'day') AS e(${FIELDS}) ORDER BY 1, 2
  ON CONFLICT DO NOTHING;${addUp(s)}
  RETURN 'counted';
END $fn$;
`;

/**
 * Whose an account is: its identity's, or that of the newest of its keys. Part of the text of released steps.
 * @param ofIdentity when it is that of an identity `i`
 */
export function ownerOf(s: string, account: string, ofIdentity: string): string {
  return `      SELECT k.number, i.workspace_id AS ws, coalesce(i.name, '') AS name FROM ${s}.keys k
        LEFT JOIN ${s}.entities i ON i.kind = 'identities' AND i.id = k.identity_id
        WHERE NOT k.deleted AND k.number = ${account}
      UNION ALL SELECT k.number, i.workspace_id, coalesce(i.name, '') FROM ${s}.keys k
        LEFT JOIN ${s}.entities i ON i.kind = 'identities' AND i.id = k.identity_id
        WHERE NOT k.deleted AND k.account = ${account}
      UNION ALL SELECT 0, i.workspace_id, i.name FROM ${s}.entities i WHERE ${ofIdentity}
      ORDER BY 1 DESC LIMIT 1`;
}

export const outcomeTables = (s: string): string => tables(s) + totals(s) + count(s);

/** Sets that every workspace may have beyond its bound. */
const FREE_SETS = `('${NO_TAGS}', '${OTHER_TAGS}')`;
const EACH = `jsonb_to_recordset(f -> 'day') AS e(${FIELDS}, place bigint)`;

/**
 * Subjects and sets get the last day on which they were counted, `day`. A row is written to only where that changes, so
 * that nodes that count the same do not wait for each other; it also keeps `pruneOutcomes` from a row that this needs.
 */
const countWithDays = (s: string): string => `
CREATE FUNCTION ${s}.count_outcomes_v2(given text) RETURNS text LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE${DECLARED}
  today bigint := (f ->> 'today')::bigint;
BEGIN${advance(s)}
  IF NOT FOUND THEN
    RETURN jsonb_build_object('outcome', ${notCounted(s)}, 'folded', '[]'::jsonb);
  END IF;
  INSERT INTO ${s}.subjects AS x (${SUBJECT}, day)
    SELECT DISTINCT e.ws, e.total, e.key, e.ext, e.api, e.account, today FROM ${EACH}
    WHERE NOT EXISTS (SELECT 1 FROM ${s}.subjects u WHERE ${SAME_SUBJECT} AND u.day >= today) ORDER BY 1, 2, 3, 4, 5, 6
  ON CONFLICT (${SUBJECT}) DO UPDATE SET day = excluded.day WHERE x.day < excluded.day;
  INSERT INTO ${s}.tag_sets AS x (workspace_id, tags, day)
    SELECT e.ws, e.tags, today FROM (
      SELECT e.ws, e.tags, e.is_new, count(*) FILTER (WHERE e.is_new) OVER (PARTITION BY e.ws ORDER BY e.tags) AS place FROM (
        SELECT e.ws, e.tags, t.number IS NULL AND e.tags NOT IN ${FREE_SETS} AS is_new
        FROM (SELECT e.ws, e.tags FROM ${EACH} UNION SELECT e.ws, '${OTHER_TAGS}' FROM ${EACH}) e
        LEFT JOIN ${s}.tag_sets t ON ${SAME_TAGS("t", "e.tags")}
        WHERE t.number IS NULL OR t.day < today
      ) e
    ) e WHERE NOT e.is_new OR e.place + coalesce((SELECT sum(c.sets) FROM ${s}.tag_sets_counts c WHERE c.workspace_id = e.ws), 0)
      <= (f ->> 'maxTagSets')::bigint
    ORDER BY 1, 2
  ON CONFLICT (workspace_id, hashtextextended(tags, 0), hashtextextended(tags, 1))
    DO UPDATE SET day = excluded.day WHERE x.day < excluded.day;${addUp(s)}
  RETURN jsonb_build_object('outcome', 'counted', 'folded', (SELECT coalesce(jsonb_agg(e.place), '[]'::jsonb) FROM ${EACH}
    WHERE e.place IS NOT NULL AND e.tags <> '${OTHER_TAGS}'
      AND NOT EXISTS (SELECT 1 FROM ${s}.tag_sets t WHERE ${SAME_TAGS("t", "e.tags")})));
END $fn$;
`;

const unnamed = (s: string): string => `
ALTER TABLE ${s}.subjects ADD COLUMN day bigint NOT NULL DEFAULT 0;
ALTER TABLE ${s}.tag_sets ADD COLUMN day bigint NOT NULL DEFAULT 0;
UPDATE ${s}.subjects SET day = coalesce((SELECT max(bucket) FROM ${s}.outcomes_day), 0);
UPDATE ${s}.tag_sets SET day = coalesce((SELECT max(bucket) FROM ${s}.outcomes_day), 0);
CREATE INDEX subjects_by_age ON ${s}.subjects (day) WHERE account = 0;
CREATE INDEX subjects_of_account ON ${s}.subjects (account) WHERE account <> 0;
CREATE INDEX tag_sets_by_age ON ${s}.tag_sets (day);${countRows(s, "tag_sets", "sets", `c.tags NOT IN ${FREE_SETS}`)}`;

/** `until` is the day of the next row, or that of the row itself where the account is nobody's; NULL: it is needed. */
const ended = (s: string): string => `
ALTER TABLE ${s}.credit_days ADD COLUMN until bigint;
UPDATE ${s}.credit_days d SET until = coalesce((SELECT e.day FROM ${s}.credit_days e
  WHERE e.account = d.account AND e.seq > d.seq ORDER BY e.seq LIMIT 1), CASE WHEN d.external_id IS NULL THEN d.day END);
DROP INDEX ${s}.credit_days_by_age;
CREATE INDEX credit_days_ended ON ${s}.credit_days (until) WHERE until IS NOT NULL;
CREATE FUNCTION ${s}.totals_added_v1() RETURNS trigger LANGUAGE plpgsql AS $fn$
BEGIN
  UPDATE ${s}.credit_days SET until = NEW.day
    WHERE account = NEW.account AND (seq = NEW.seq - 1 OR seq = NEW.seq AND NEW.external_id IS NULL);
  RETURN NULL;
END $fn$;
CREATE TRIGGER added AFTER INSERT ON ${s}.credit_days FOR EACH ROW EXECUTE FUNCTION ${s}.totals_added_v1();
`;

/** What no count names is removed, and what is kept costs a removal nothing. */
export const REMOVE_UNNAMED = {
  up: (s: string): string => `${unnamed(s)}${ended(s)}DROP FUNCTION ${s}.count_outcomes_v1(text);${countWithDays(s)}`,
  down: (s: string): string => `
DROP FUNCTION ${s}.count_outcomes_v2(text);${count(s)}
DROP TRIGGER added ON ${s}.credit_days; DROP FUNCTION ${s}.totals_added_v1();
${forgetCounts(s, "tag_sets")}
DROP INDEX ${s}.subjects_of_account;
ALTER TABLE ${s}.subjects DROP COLUMN day;
ALTER TABLE ${s}.tag_sets DROP COLUMN day;
ALTER TABLE ${s}.credit_days DROP COLUMN until;
CREATE INDEX credit_days_by_age ON ${s}.credit_days (day);`,
  refuses: {},
} as const;

/** When the oldest refusal of a row was; an index has it. */
export const OLDEST_REFUSAL = "(pg_catalog.jsonb_extract_path_text(refusals, '-1', 'time')::bigint)";

/**
 * The last refusals: one row for each key of a workspace, with a JSON list of refusals, newest first. The step that
 * counts outcomes adds refusals. A trigger deletes the row when the row of its key is deleted.
 */
export const KEEP_REFUSALS = {
  up: (s: string): string => `
CREATE TABLE ${s}.refusals (
  key_id text COLLATE "C" NOT NULL,
  workspace_id text COLLATE "C" NOT NULL,
  time bigint NOT NULL,
  refusals jsonb NOT NULL,
  PRIMARY KEY (key_id, workspace_id)
);
CREATE INDEX refusals_by_age ON ${s}.refusals (${OLDEST_REFUSAL});
CREATE FUNCTION ${s}.key_removed_v1() RETURNS trigger LANGUAGE plpgsql AS $fn$
BEGIN
  DELETE FROM ${s}.refusals WHERE key_id = OLD.id;
  RETURN NULL;
END $fn$;
CREATE TRIGGER removed AFTER DELETE ON ${s}.keys FOR EACH ROW EXECUTE FUNCTION ${s}.key_removed_v1();
CREATE FUNCTION ${s}.count_outcomes_v3(given text, most bigint, fewer bigint) RETURNS text LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE result text := ${s}.count_outcomes_v2(given);
BEGIN
  IF strpos(given, '"refused":[{') = 0 OR result::jsonb ->> 'outcome' <> 'counted' THEN RETURN result; END IF;
  INSERT INTO ${s}.refusals AS x (key_id, workspace_id, time, refusals)
    SELECT e."keyId", e."workspaceId", e.time, e.refusals
    FROM jsonb_to_recordset(given::jsonb -> 'refused') AS e("keyId" text, "workspaceId" text, time bigint, refusals jsonb)
  ON CONFLICT (key_id, workspace_id) DO UPDATE SET time = greatest(x.time, excluded.time), refusals = (
    SELECT jsonb_agg(r.one ORDER BY r.at DESC, r.i) FROM (
      SELECT one, i, (one ->> 'time')::bigint AS at
      FROM jsonb_array_elements(excluded.refusals || x.refusals) WITH ORDINALITY a(one, i)
      ORDER BY 3 DESC, 2 LIMIT ${MAX_REFUSALS}) r);
  -- The keys of one workspace get numbers from its newest on: the highest are of those that have most.
  IF (SELECT count(*) FROM ${s}.refusals) > most AND pg_try_advisory_xact_lock(hashtextextended('${s}', 7235929)) THEN
    DELETE FROM ${s}.refusals WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM ${s}.refusals WHERE (key_id, workspace_id) IN (
        SELECT p.key_id, p.workspace_id FROM (
          SELECT key_id, workspace_id, row_number() OVER (PARTITION BY workspace_id ORDER BY time DESC) AS place FROM ${s}.refusals
        ) p ORDER BY p.place DESC LIMIT fewer)
      FOR UPDATE SKIP LOCKED));
  END IF;
  RETURN result;
END $fn$;
`,
  down: (s: string): string => `
DROP FUNCTION ${s}.count_outcomes_v3(text, bigint, bigint);
DROP TRIGGER removed ON ${s}.keys; DROP FUNCTION ${s}.key_removed_v1(); DROP TABLE ${s}.refusals;`,
  refuses: {},
} as const;
