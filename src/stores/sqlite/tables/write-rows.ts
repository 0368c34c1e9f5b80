/**
 * Writes rows of any table, all or none, and collects the changes that a find could see. Runs in the caller's
 * transaction.
 */
import { KeystileError } from "../../../contracts/errors.js";
import { isCreditWrite, isFoundWithKeys } from "../../../contracts/row-changes.js";
import type { Table, Write } from "../../../contracts/store.js";
import type { LoggedChange } from "../changes/change-log.js";
import { resultName } from "../connection/errors.js";
import type { KeyWriter } from "../keys/write-keys.js";
import type { EntityTables } from "./entity-tables.js";
import type { Effects, Refusal, RowOutcome } from "./run-write.js";

/** @returns what they have done, or why the caller must roll back */
export function applyWrites(writes: readonly Write[], rows: EntityTables, keys: KeyWriter): Effects | Refusal {
  const effects: Effects = { changes: [], balances: [] };
  for (const write of writes) {
    const outcome = apply(write, rows, keys, effects);
    if (outcome !== "written") return outcome;
  }
  return effects;
}

function apply(write: Write, rows: EntityTables, keys: KeyWriter, effects: Effects): RowOutcome {
  const { changes } = effects;
  if ("remove" in write) return remove(write, rows, keys, changes) ? "written" : "conflict";
  if (write.table === "keys") return keys.store(write.row, write.credits, effects);
  const { table, row } = write;
  // A new row changes no existing key, except a workspace: keys do not need a row of their workspace.
  if (row.version > 0 || table === "workspaces") addChangeOf(table, row.id, rows, keys, changes);
  if (table === "rootKeys") changes.push({ digest: row.digest });
  const outcome = rows.store(table, row);
  if (!isCreditWrite(write) || outcome !== "written") return outcome;
  return keys.changeCreditsOf(write, effects) ? outcome : "conflict";
}

/** @returns false: the row is gone, has another version, or is drawn on */
function remove(
  { table, remove: id, version }: Extract<Write, { readonly remove: string }>,
  rows: EntityTables,
  keys: KeyWriter,
  changes: LoggedChange[],
): boolean {
  if (table === "keys") return keys.remove(id, version, changes);
  // Before the row is removed: afterwards its keys cannot be found.
  addChangeOf(table, id, rows, keys, changes);
  if (table === "identities" && !keys.forgetIdentity(id)) return false;
  if (table === "grants") keys.forgetGrant(id);
  return removing(() => rows.remove(table, id, version));
}

/** Adds the change that a find could see of the existing row. */
function addChangeOf(
  table: Exclude<Table, "keys">,
  id: string,
  rows: EntityTables,
  keys: KeyWriter,
  changes: LoggedChange[],
): void {
  if (table === "identities") return keys.addIdentityChange(id, changes);
  if (table === "rootKeys") {
    const [old] = rows.readMany(table, [id]);
    if (old !== undefined) changes.push({ digest: old.digest });
  } else if (isFoundWithKeys(table)) changes.push("all");
}

function removing(remove: () => boolean): boolean {
  try {
    return remove();
  } catch (cause) {
    if (resultName(cause) !== "CONSTRAINT") throw cause;
    throw new KeystileError("CONFLICT", "an API that still has keys cannot be removed", { cause });
  }
}
