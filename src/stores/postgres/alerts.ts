/** Alerts in PostgreSQL: what is raised, and what is still to be delivered. Store clause 30. */
import type { AlertRow, AlertState } from "../../contracts/alerts.js";
import type { Store } from "../../contracts/store.js";
import { type PostgresRow, type Session, type Statement, writing } from "./client.js";
import { jsonForPeople } from "./texts.js";

/** `ended` of those that have not. */
const NOT_ENDED = Number.MAX_SAFE_INTEGER;
const STATES = { raised: `a.ended = ${NOT_ENDED}::bigint`, pending: "a.due IS NOT NULL", dead: "a.dead = 1::bigint" };

const FIELDS = "a.number, a.kind, a.subject, a.body, a.tries, a.due";

/** A step of the schema: it never changes once released. */
export const alertTables = (s: string): string => `
CREATE TABLE ${s}.alerts (
  number bigint PRIMARY KEY DEFAULT nextval('${s}.key_numbers'),
  workspace_id text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  body text NOT NULL,
  raised bigint NOT NULL,
  ended bigint NOT NULL,
  due bigint,
  tries bigint NOT NULL,
  dead bigint NOT NULL,
  UNIQUE (workspace_id, kind, subject, ended)
);
CREATE INDEX alerts_raised ON ${s}.alerts (workspace_id, number) WHERE ended = ${NOT_ENDED};
CREATE INDEX alerts_due ON ${s}.alerts (workspace_id, due, number) WHERE due IS NOT NULL;
CREATE INDEX alerts_dead ON ${s}.alerts (workspace_id, number) WHERE dead = 1;
CREATE INDEX alerts_over ON ${s}.alerts (ended) WHERE due IS NULL;

-- In the order of the subjects, so that nodes that find the same wait for each other, and none in a circle.
CREATE FUNCTION ${s}.change_alerts_v1(given text) RETURNS text LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE
  c record;
  changed jsonb := '[]';
BEGIN
  FOR c IN
    SELECT * FROM jsonb_to_recordset(given::jsonb)
      AS e(n bigint, "workspaceId" text, kind text, subject text, "from" bigint, until bigint, body text)
    ORDER BY "workspaceId" COLLATE "C", kind COLLATE "C", subject COLLATE "C", n
  LOOP
    IF c.body IS NULL THEN
      UPDATE ${s}.alerts a SET ended = c.until
        WHERE a.workspace_id = c."workspaceId" AND a.kind = c.kind AND a.subject = c.subject
          AND a.ended = ${NOT_ENDED} AND a.raised < c."from";
    ELSE
      INSERT INTO ${s}.alerts (workspace_id, kind, subject, body, raised, ended, due, tries, dead)
        SELECT c."workspaceId", c.kind, c.subject, c.body, c.until, ${NOT_ENDED}, c.until, 0, 0
        WHERE NOT EXISTS (
          SELECT 1 FROM ${s}.alerts a
          WHERE a.workspace_id = c."workspaceId" AND a.kind = c.kind AND a.subject = c.subject AND a.ended >= c."from")
        ON CONFLICT DO NOTHING;
    END IF;
    IF FOUND THEN changed := changed || to_jsonb(c.n); END IF;
  END LOOP;
  RETURN changed;
END $fn$;

CREATE FUNCTION ${s}.take_alerts_v1(ws text, now_ms bigint, until_ms bigint, most bigint, before bigint)
RETURNS text LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE taken text;
BEGIN
  DELETE FROM ${s}.alerts WHERE number IN (
    SELECT a.number FROM ${s}.alerts a WHERE a.due IS NULL AND a.ended < before ORDER BY a.ended LIMIT most FOR UPDATE SKIP LOCKED);
  WITH chosen AS MATERIALIZED (
    SELECT a.number, a.due FROM ${s}.alerts a WHERE a.workspace_id = ws AND a.due <= now_ms
    ORDER BY a.due, a.number LIMIT most FOR UPDATE SKIP LOCKED
  ), moved AS (
    UPDATE ${s}.alerts a SET due = until_ms, tries = a.tries + 1 FROM chosen c WHERE a.number = c.number
    RETURNING ${FIELDS}, c.due AS was_due
  )
  SELECT coalesce(jsonb_agg(to_jsonb(m) - 'was_due' ORDER BY m.was_due, m.number), '[]')::text INTO taken FROM moved m;
  RETURN taken;
END $fn$;
`;

type Methods = Pick<Required<Store>, "changeAlerts" | "listAlerts" | "takeAlerts" | "settleAlert">;
type Promised = { readonly [M in keyof Methods]: (...given: Parameters<Methods[M]>) => Promise<never> };

/** @param s the schema, quoted @param lockMs milliseconds to wait for a lock */
export function createAlertStore(session: Session, s: string, lockMs: number): Promised {
  const change = writing(`${s}.change_alerts_v1($1)`, lockMs);
  const take = writing(
    `${s}.take_alerts_v1($1, $2::text::bigint, $3::text::bigint, $4::text::bigint, $5::text::bigint)`,
    lockMs,
  );
  const listing = (state: AlertState): Statement => ({
    isRead: true,
    text: `SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(x) ORDER BY x.number), '[]')::text AS result FROM (
      SELECT ${FIELDS} FROM ${s}.alerts a
      WHERE a.workspace_id = $1 AND ${STATES[state]} AND a.number > $2::text::bigint
      ORDER BY a.number LIMIT $3::text::bigint) x`,
  });
  const lists = { raised: listing("raised"), pending: listing("pending"), dead: listing("dead") };
  const settle: Statement = {
    isRead: false,
    text: `UPDATE ${s}.alerts a SET due = $3::text::bigint, dead = $4::text::bigint, tries = a.tries + 1
      WHERE a.number = $1::text::bigint AND a.due IS NOT NULL AND (a.due = $2::text::bigint OR $5::text = 'delivered')`,
  };
  const rowsOf = ([row]: readonly PostgresRow[]): never =>
    (JSON.parse(row?.["result"] as string) as (AlertRow & { readonly due: number | null })[]).map(
      ({ due, ...rest }): AlertRow => ({ ...rest, ...(due !== null && { due }) }),
    ) as never;
  return {
    async changeAlerts(changes) {
      const [row] = await session.run(change, jsonForPeople(changes.map((one, n) => ({ ...one, n }))));
      const changed = new Set(JSON.parse(row?.["result"] as string) as number[]);
      return changes.map((_, n) => changed.has(n)) as never;
    },
    async listAlerts({ workspaceId, state, after = 0, limit }) {
      return rowsOf(await session.run(lists[state], workspaceId, String(after), String(limit)));
    },
    async takeAlerts({ workspaceId, now, until, limit, endedBefore }) {
      return rowsOf(await session.run(take, workspaceId, ...[now, until, limit, endedBefore].map(String)));
    },
    async settleAlert({ number, due: taken, next }) {
      const due = typeof next === "number" ? String(next) : null;
      const isDead = String(Number(next === "dead"));
      await session.run(settle, String(number), String(taken), due, isDead, due === null ? String(next) : "failed");
      return undefined as never;
    },
  };
}
