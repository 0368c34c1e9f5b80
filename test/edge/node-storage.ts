/**
 * The storage of a Durable Object on an SQLite of Node, for what needs no workerd: how a Worker asks its object. What
 * the platform's own storage does is tried in workerd.
 */
import Database from "better-sqlite3";
import type { AlarmStorage } from "../../src/edge/engine.js";

export interface NodeStorage extends AlarmStorage {
  /** A test may put another in its place. */
  readonly sql: { exec: AlarmStorage["sql"]["exec"] };
  alarm(): number | null;
}

export function nodeStorage(): NodeStorage {
  const db = new Database(":memory:");
  let alarm: number | null = null;
  const exec = (query: string, values: readonly unknown[]): unknown[] => {
    try {
      const statement = db.prepare(query);
      return statement.reader ? statement.all(...values) : (statement.run(...values), []);
    } catch (error) {
      if (!/more than one statement/.test((error as Error).message)) throw error;
      db.exec(query);
      return [];
    }
  };
  return {
    alarm: () => alarm,
    getAlarm: () => Promise.resolve(alarm),
    setAlarm: (time) => ((alarm = time), Promise.resolve()),
    transactionSync: (work) => db.transaction(work)(),
    sql: {
      exec(query, ...values) {
        const rows = exec(query, values);
        return { toArray: () => rows };
      },
    },
  };
}
