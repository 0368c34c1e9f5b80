/** The position of the next page of a list, as opaque text. */
import type { Table } from "../../contracts/store.js";

/** Tables that are listed in pages. */
export type ListedTable = Extract<
  Table,
  "apis" | "keys" | "identities" | "roles" | "permissions" | "rootKeys" | "overrides" | "namespaces"
>;

const ID = /^[a-zA-Z0-9_]{1,255}$/;

/** The cursor of the page after the row `id`; at most 400 characters. */
export function writeCursor(table: ListedTable, id: string): string {
  return toUrl(btoa(`${table}:${id}`));
}

/** The id that a cursor of this table stands for; `undefined`: not made by {@link writeCursor}. */
export function readCursor(table: ListedTable, cursor: string): string | undefined {
  if (!/^[A-Za-z0-9_-]{2,1024}$/.test(cursor) || cursor.length % 4 === 1) return undefined;
  const text = atob(cursor.replace(/-/g, "+").replace(/_/g, "/"));
  const id = text.slice(table.length + 1);
  return ID.test(id) && writeCursor(table, id) === cursor ? id : undefined;
}

function toUrl(base64: string): string {
  return base64.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
