/**
 * Writes rows of any table, all or none, and collects the changes that a find could see. Runs in the caller's
 * transaction.
 */
import { KeystileError } from "../../../contracts/errors.js";
import type { Change, Table, Write } from "../../../contracts/store.js";
import { resultName } from "../connection/errors.js";
import type { KeyWriter } from "../keys/write-keys.js";
import type { EntityTables } from "./entity-tables.js";

/** Tables whose rows may be part of what a find returns for any key. */
const FOUND_WITH_KEYS: ReadonlySet<Table> = new Set<Table>(["workspaces", "apis", "roles", "permissions"]);

/** @returns the changes; `undefined`: a row has another version or its name is taken, and the caller must roll back */
export function applyWrites(writes: readonly Write[], rows: EntityTables, keys: KeyWriter): Change[] | undefined {
  const changes: Change[] = [];
  return writes.every((write) => apply(write, rows, keys, changes)) ? changes : undefined;
}

function apply(write: Write, rows: EntityTables, keys: KeyWriter, changes: Change[]): boolean {
  if ("remove" in write) {
    const { table, remove, version } = write;
    if (table === "keys") return keys.remove(remove, version, changes);
    // Before the row is removed: afterwards its keys cannot be found.
    addChangeOf(table, remove, rows, keys, changes);
    if (table === "identities") keys.forgetIdentity(remove);
    return removing(() => rows.remove(table, remove, version));
  }
  if (write.table === "keys") return keys.store(write.row, write.credits, changes);
  const { table, row } = write;
  // A new row changes no existing key, except a workspace: keys do not need a row of their workspace.
  if (row.version > 0 || table === "workspaces") addChangeOf(table, row.id, rows, keys, changes);
  if (table === "rootKeys") changes.push({ digest: row.digest });
  return rows.store(table, row);
}

/** Adds the change that a find could see of the existing row. */
function addChangeOf(
  table: Exclude<Table, "keys">,
  id: string,
  rows: EntityTables,
  keys: KeyWriter,
  changes: Change[],
): void {
  if (table === "identities") return keys.addIdentityChange(id, changes);
  if (table === "rootKeys") {
    const old = rows.read(table, id);
    if (old !== undefined) changes.push({ digest: old.digest });
  } else if (FOUND_WITH_KEYS.has(table)) changes.push("all");
}

function removing(remove: () => boolean): boolean {
  try {
    return remove();
  } catch (cause) {
    if (resultName(cause) !== "CONSTRAINT") throw cause;
    throw new KeystileError("CONFLICT", "an API that still has keys cannot be removed", { cause });
  }
}
