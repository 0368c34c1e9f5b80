/** The position of the next page of a list, as opaque text. */
import type { Table } from "../../contracts/store.js";
import type { SearchKeysRequestBody } from "./requests.js";

/** Tables that are listed in pages. */
export type ListedTable = Extract<
  Table,
  "apis" | "keys" | "identities" | "roles" | "permissions" | "rootKeys" | "overrides" | "namespaces"
>;
/** What a cursor is of: rows of a table, or entries of the audit trail, which it names by their number. */
export type CursorOf = ListedTable | "audit";

const ID = /^[a-zA-Z0-9_]{1,255}$/;
const NUMBER = /^[1-9][0-9]{0,14}$/;

/** The cursor of the page after the row `id`; at most 400 characters. */
export function writeCursor(table: CursorOf, id: string): string {
  return encode(`${table}:${id}`);
}

/** The id that a cursor of this table stands for; `undefined`: not made by {@link writeCursor}. */
export function readCursor(table: CursorOf, cursor: string): string | undefined {
  const id = decode(cursor)?.slice(table.length + 1) ?? "";
  return (table === "audit" ? NUMBER : ID).test(id) && writeCursor(table, id) === cursor ? id : undefined;
}

/** Where a search of keys goes on. */
export interface KeyCursor {
  readonly order: NonNullable<SearchKeysRequestBody["order"]>;
  /** The part of the search: keys of an owner that is named, then all others. */
  readonly phase: number;
  /** After the key with this id. */
  readonly id: string;
  /** What it is ordered by, unless that is its id. */
  readonly value?: number;
}

const KEY_CURSOR = /^search:(made|expires|lastUsed|credits):([01]):(-?[0-9]{1,16}|):([a-zA-Z0-9_]{0,255})$/;

/** The cursor of the page after a key; at most 400 characters. */
export function writeKeyCursor({ order, phase, id, value }: KeyCursor): string {
  return encode(`search:${order}:${phase}:${value ?? ""}:${id}`);
}

/** What {@link writeKeyCursor} was given; `undefined`: not made by it. */
export function readKeyCursor(cursor: string): KeyCursor | undefined {
  const parts = KEY_CURSOR.exec(decode(cursor) ?? "");
  const [, order, phase, value = "", id = ""] = parts ?? [];
  // All orders but that of ids have a value.
  if (parts === null || (order === "made") !== (value === "")) return undefined;
  const found = { order: order as KeyCursor["order"], phase: Number(phase), id };
  return value === "" ? found : { ...found, value: Number(value) };
}

function encode(text: string): string {
  return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

function decode(cursor: string): string | undefined {
  if (!/^[A-Za-z0-9_-]{2,1024}$/.test(cursor) || cursor.length % 4 === 1) return undefined;
  return atob(cursor.replace(/-/g, "+").replace(/_/g, "/"));
}
