/** Small steps of the suite of shared stores. */
import type { Change, Rows, Store, Table, Write } from "../../contracts/store.js";
import { expect } from "../expect.js";

/** Makes a new, empty store and opens it twice, as two processes would: the handles share what is stored, and no memory. */
export type OpenShared = () => readonly [Store, Store] | Promise<readonly [Store, Store]>;

/** Two handles on a store that has the API which `keyRow` speaks of. */
export interface SharedStore {
  readonly here: Store;
  readonly there: Store;
}

/** Adds a test. */
export type SharedClause = (title: string, body: (open: () => Promise<SharedStore>) => Promise<void>) => void;

/** Listens to a store; the result polls, and answers what was told since the last time. */
export function listen(store: Store): () => Promise<readonly Change[]> {
  const told: Change[] = [];
  store.subscribe((change) => told.push(change));
  return async () => {
    await store.pollChanges(NaN);
    return told.splice(0);
  };
}

/** Whether a memory that heard these changes has dropped what it knew of a digest that was found before. */
export const drops = (told: readonly Change[], digest: string): boolean =>
  told.some((change) => change === "all" || (typeof change === "object" && change.digest === digest));
/** Whether it has dropped that there is no such digest. */
export const dropsMiss = (told: readonly Change[], digest: string): boolean =>
  told.includes("created") || drops(told, digest);

/** Stores a row as it was read, with some fields changed. */
export async function change<T extends Table>(
  store: Store,
  table: T,
  id: string,
  over: Partial<Rows[T]>,
): Promise<void> {
  const row = (await store.read(table, id)) ?? { id, version: 0 };
  expect(await store.write([{ table, row: { ...row, ...over } } as unknown as Write]), `${table} ${id}`).toBe(true);
}

/** Removes a row as it was read. */
export const removeRow = async (store: Store, table: Table, id: string): Promise<void> => {
  const { version } = (await store.read(table, id))!;
  expect(await store.write([{ table, remove: id, version } as Write]), `${table} ${id}`).toBe(true);
};
