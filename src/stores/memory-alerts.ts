/** Alerts of a store in memory: store clause 30. */
import type { AlertChange, AlertRow } from "../contracts/alerts.js";
import type { Store } from "../contracts/store.js";
import type { Mutable } from "../lib/mutable.js";

/** A row with whose it is. */
interface Kept extends Mutable<AlertRow> {
  readonly workspaceId: string;
  readonly raised: number;
  /** Infinity: it has not ended. */
  ended: number;
  due?: number;
  isDead: boolean;
}

export function createMemoryAlerts(): Pick<
  Required<Store>,
  "changeAlerts" | "listAlerts" | "takeAlerts" | "settleAlert"
> {
  const rows = new Map<number, Kept>();
  /** The last of each subject. */
  const latest = new Map<string, Kept>();
  let lastNumber = 0;
  const change = ({ workspaceId, kind, subject, from, until, body }: AlertChange): boolean => {
    const of = JSON.stringify([workspaceId, kind, subject]);
    const last = latest.get(of);
    if (body === undefined) {
      if (last === undefined || last.ended !== Infinity || last.raised >= from) return false;
      last.ended = until;
      return true;
    }
    if (last !== undefined && last.ended >= from) return false;
    const number = ++lastNumber;
    const state = { raised: until, ended: Infinity, tries: 0, due: until, isDead: false };
    const row: Kept = { number, workspaceId, kind, subject, body, ...state };
    rows.set(number, row);
    latest.set(of, row);
    return true;
  };
  const forget = (before: number, most: number): void => {
    let removed = 0;
    for (const { number, ended, due } of rows.values())
      if (due === undefined && ended < before && removed++ < most) rows.delete(number);
    for (const [of, { number }] of latest) if (!rows.has(number)) latest.delete(of);
  };
  return {
    changeAlerts: (changes) => changes.map(change),
    listAlerts: ({ workspaceId, state, after = 0, limit }) =>
      [...rows.values()]
        .filter((row) => row.workspaceId === workspaceId && row.number > after && IS_IN[state](row))
        .slice(0, limit)
        .map(toRow),
    takeAlerts({ workspaceId, now, until, limit, endedBefore }) {
      forget(endedBefore, limit);
      const isDue = (row: Kept): boolean => row.workspaceId === workspaceId && Number(row.due) <= now;
      const due = [...rows.values()].filter(isDue).sort((a, b) => Number(a.due) - Number(b.due));
      return due.slice(0, limit).map((row) => {
        row.due = until;
        return toRow(row);
      });
    },
    settleAlert({ number, due, next }) {
      const row = rows.get(number);
      if (row?.due === undefined || (next !== "delivered" && row.due !== due)) return;
      row.tries++;
      if (typeof next === "number") row.due = next;
      else delete row.due;
      row.isDead = next === "dead";
    },
  };
}

const IS_IN = {
  raised: ({ ended }: Kept) => ended === Infinity,
  pending: ({ due }: Kept) => due !== undefined,
  dead: ({ isDead }: Kept) => isDead,
} as const;

function toRow({ number, kind, subject, body, tries, due }: Kept): AlertRow {
  return { number, kind, subject, body, tries, ...(due !== undefined && { due }) };
}
