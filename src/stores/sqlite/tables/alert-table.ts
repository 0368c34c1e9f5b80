/**
 * Alerts in the file: what is raised, and what is still to be delivered. Store clause 30.
 *
 * Why one table for both: a crossing is one statement, and nothing is raised that is not to be delivered.
 */
import type { AlertRow } from "../../../contracts/alerts.js";
import type { Store } from "../../../contracts/store.js";
import { type Handle, select } from "../connection/handle.js";
import { given, one } from "./given.js";

/** `ended` of those that have not. */
export const NOT_ENDED = Number.MAX_SAFE_INTEGER;

/** Part of the file format. */
export const CREATE_ALERTS = `
  CREATE TABLE keystile_alerts (
    number INTEGER PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    raised INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    due INTEGER,
    tries INTEGER NOT NULL,
    dead INTEGER NOT NULL CHECK (dead IN (0, 1)),
    UNIQUE (workspace_id, kind, subject, ended)
  ) STRICT;
  CREATE INDEX keystile_alerts_raised ON keystile_alerts (workspace_id, number) WHERE ended = ${NOT_ENDED};
  CREATE INDEX keystile_alerts_due ON keystile_alerts (workspace_id, due) WHERE due IS NOT NULL;
  CREATE INDEX keystile_alerts_dead ON keystile_alerts (workspace_id, number) WHERE dead = 1;
  CREATE INDEX keystile_alerts_over ON keystile_alerts (ended) WHERE due IS NULL;`;

const STATES = { raised: `ended = ${NOT_ENDED}`, pending: "due IS NOT NULL", dead: "dead = 1" } as const;
const COLUMNS = "number, kind, subject, body, tries, due";

/** Works on the table; all but `listAlerts` is to be called inside a transaction. */
export type AlertTable = {
  readonly [M in "changeAlerts" | "listAlerts" | "takeAlerts" | "settleAlert"]: (
    ...given: Parameters<Required<Store>[M]>
  ) => Awaited<ReturnType<Required<Store>[M]>>;
};

export function createAlertTable(handle: Handle): AlertTable {
  const raise = handle.prepare(
    `${given("ws", "kind", "subject", "since", "at", "body")}
     INSERT INTO keystile_alerts (workspace_id, kind, subject, body, raised, ended, due, tries, dead)
       SELECT ws, kind, subject, body, at, ${NOT_ENDED}, at, 0, 0 FROM given g WHERE NOT EXISTS (
         SELECT 1 FROM keystile_alerts a
         WHERE a.workspace_id = g.ws AND a.kind = g.kind AND a.subject = g.subject AND a.ended >= g.since)`,
  );
  const end = handle.prepare(
    `UPDATE keystile_alerts SET ended = ?
     WHERE workspace_id = ? AND kind = ? AND subject = ? AND ended = ${NOT_ENDED} AND raised < ?`,
  );
  const lists = Object.fromEntries(
    Object.entries(STATES).map(([state, condition]) => [
      state,
      select<AlertRaw>(
        handle,
        `SELECT ${COLUMNS} FROM keystile_alerts
         WHERE workspace_id = ? AND ${condition} AND number > ? ORDER BY number LIMIT ?`,
      ),
    ]),
  );
  const due = select<AlertRaw>(
    handle,
    `SELECT ${COLUMNS} FROM keystile_alerts WHERE workspace_id = ? AND due <= ? ORDER BY due, number LIMIT ?`,
  );
  const take = handle.prepare("UPDATE keystile_alerts SET due = ? WHERE number = ?");
  const settle = handle.prepare(
    `${given("number", "taken", "next", "dead", "done")}
     UPDATE keystile_alerts SET due = ${one("next")}, dead = ${one("dead")}, tries = tries + 1
     WHERE number = ${one("number")} AND due IS NOT NULL AND (due = ${one("taken")} OR ${one("done")})`,
  );
  const forget = handle.prepare(
    `DELETE FROM keystile_alerts WHERE number IN
       (SELECT number FROM keystile_alerts WHERE due IS NULL AND ended < ? ORDER BY ended LIMIT ?)`,
  );
  return {
    changeAlerts: (changes) =>
      changes.map(({ workspaceId, kind, subject, from, until, body }) => {
        const done =
          body === undefined
            ? end.run(until, workspaceId, kind, subject, from)
            : raise.run(workspaceId, kind, subject, from, until, body);
        return Number(done.changes) > 0;
      }),
    listAlerts: ({ workspaceId, state, after = 0, limit }) =>
      (lists[state] as typeof due).all(workspaceId, after, limit).map(toAlertRow),
    takeAlerts({ workspaceId, now, until, limit, endedBefore }) {
      forget.run(endedBefore, limit);
      return due.all(workspaceId, now, limit).map((raw) => {
        take.run(until, Number(raw.number));
        return toAlertRow({ ...raw, due: until });
      });
    },
    settleAlert: ({ number, due, next }) =>
      void settle.run(
        number,
        due,
        typeof next === "number" ? next : null,
        Number(next === "dead"),
        Number(next === "delivered"),
      ),
  };
}

/** A row as drivers return it. */
interface AlertRaw {
  readonly number: number | bigint;
  readonly kind: string;
  readonly subject: string;
  readonly body: string;
  readonly tries: number | bigint;
  readonly due: number | bigint | null;
}

function toAlertRow({ number, tries, due, ...texts }: AlertRaw): AlertRow {
  return { ...texts, number: Number(number), tries: Number(tries), ...(due !== null && { due: Number(due) }) };
}
