/**
 * A store that reads another and writes nothing, for dry runs of imports.
 *
 * Why a store and not a branch in the import: the import itself runs, up to the write, so that a dry run finds exactly
 * the problems that the import would find.
 */
import type { KeyRow, MigrationRow, Store, Table } from "../../contracts/store.js";
import { lacking } from "../../lib/guards/powers.js";
import { trust } from "../../lib/guards/trusted.js";
import type { Shared } from "../context.js";
import { MAX_BATCH } from "../rows.js";

/**
 * `insertKeys` returns for each key whether it would be inserted, and `write` always "written". Remembers the hash and
 * the id of each key that would be inserted, some 200 bytes, to find repeats; and the migrations, which imports read
 * back.
 * @throws KeystileError STORE_POWER_MISSING: the store cannot search keys by their hashes
 */
export function dryStore(store: Store): Store {
  if (store.powers.search !== true || store.findKeyIds === undefined) throw lacking("search", "a dry run");
  const { findKeyIds } = store;
  const migrations = new Map<string, MigrationRow>();
  const taken = new Set<string>();
  // The hash stands for the digest too, which an imported key has only if both are the same.
  const isFirst = ({ id, foreignDigest = "" }: KeyRow): boolean => {
    if (taken.has(foreignDigest) || taken.has(id)) return false;
    taken.add(foreignDigest);
    taken.add(id);
    return true;
  };
  const reading = {
    async readMany(table: Table, ids: readonly string[]) {
      const rows = await store.readMany(table, ids);
      return table === "migrations" ? rows.map((row, i) => row ?? migrations.get(ids[i] as string)) : rows;
    },
  } as Pick<Store, "readMany">;
  return trust({
    ...store,
    ...reading,
    powers: { ...store.powers, audit: false },
    async insertKeys(keys) {
      const found = await findKeyIds(keys.map(({ row }) => row));
      const ids = new Set<string>();
      for (let start = 0; start < keys.length; start += MAX_BATCH) {
        const given = keys.slice(start, start + MAX_BATCH).map(({ row }) => row.id);
        for (const row of await store.readMany("keys", given)) if (row !== undefined) ids.add(row.id);
      }
      return keys.map(({ row }, i) => found[i] === undefined && !ids.has(row.id) && isFirst(row));
    },
    write(writes) {
      for (const one of writes) if (one.table === "migrations" && "row" in one) migrations.set(one.row.id, one.row);
      return "written";
    },
  });
}

/** The same operations, on a {@link dryStore} and without an audit trail. @throws KeystileError as that */
export function dryContext<S extends Shared>(context: S): S {
  const store = dryStore(context.unaudited);
  return { ...context, store, unaudited: store, audit: { ...context.audit, queue: undefined } };
}
