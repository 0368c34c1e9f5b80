/** Small helpers for the suite of shared stores. */
import type { Change, KeyRecord, Rows, Store, Table, Write } from "../../contracts/store.js";
import { isMadeOf } from "../../contracts/row-changes.js";
import { expect } from "../expect.js";
import { readRow } from "./rows.js";

/**
 * Creates a new, empty store and opens it twice, as two processes would: the handles share the stored data, and no
 * memory.
 */
export type OpenShared = () => readonly [Store, Store] | Promise<readonly [Store, Store]>;

/** Two handles on a store with the API that `keyRow` refers to. */
export interface SharedStore {
  readonly here: Store;
  readonly there: Store;
}

export type SharedBody = (store: SharedStore) => Promise<void>;

/** Adds a test. */
export type SharedClause = (title: string, body: SharedBody) => void;

/** A test of two handles for one handle, in place of both. */
export const alone =
  (body: SharedBody) =>
  (store: Store): Promise<void> =>
    body({ here: store, there: store });

/** What one handle has changed reaches the other, if it is another. */
export async function reach({ here, there }: SharedStore): Promise<void> {
  if (here !== there) await there.pollChanges("anew");
}

/** Subscribes to a store; the result polls, and returns the changes notified since the last call. */
export function listen(store: Store, polls = true): () => Promise<readonly Change[]> {
  const notified: Change[] = [];
  store.subscribe((change) => notified.push(change));
  return async () => {
    if (polls) await store.pollChanges("anew");
    return notified.splice(0);
  };
}

/**
 * Whether a cache that receives these changes drops its entry for a digest that was found before.
 * @param record what was found
 */
export const drops = (notified: readonly Change[], digest: string, record?: KeyRecord): boolean =>
  notified.some((change) => {
    if (typeof change !== "object") return change === "all";
    return "digest" in change ? change.digest === digest : record !== undefined && isMadeOf(record, change);
  });
/** Whether it drops its entry for a digest that was not found. */
export const dropsMiss = (notified: readonly Change[], digest: string): boolean =>
  notified.some((change) => change === "created" || (typeof change === "object" && "table" in change)) ||
  drops(notified, digest);

/** Stores a row as it was read, with some fields changed. */
export async function change<T extends Table>(
  store: Store,
  table: T,
  id: string,
  over: Partial<Rows[T]>,
): Promise<void> {
  const row = { ...((await readRow(store, table, id)) ?? { id, version: 0 }), ...over };
  expect(await store.write([{ table, row } as unknown as Write]), `${table} ${id}`).toBe("written");
}

/** Removes a row as it was read. */
export const removeRow = async (store: Store, table: Table, id: string): Promise<void> => {
  const { version } = (await readRow(store, table, id))!;
  expect(await store.write([{ table, remove: id, version } as Write]), `${table} ${id}`).toBe("written");
};
