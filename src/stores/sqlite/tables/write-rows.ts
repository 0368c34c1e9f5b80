/**
 * Writes rows of any table, all or none, and collects the changes that a find could see. Runs in the caller's
 * transaction.
 */
import { KeystileError } from "../../../contracts/errors.js";
import { isCreditWrite, isFoundWithKeys } from "../../../contracts/row-changes.js";
import type { Table, Write } from "../../../contracts/store.js";
import { resultName } from "../connection/errors.js";
import { writeBalance } from "../credits/write-balance.js";
import type { SqliteTables } from "./open-tables.js";
import type { Effects, Refusal, RowOutcome } from "./run-write.js";

/** Writes rows one by one, and collects what that has done. */
export class RowWriter {
  readonly #effects: Effects = { changes: [], balances: [] };
  readonly #tables: SqliteTables;

  constructor(tables: SqliteTables) {
    this.#tables = tables;
  }

  /** @returns what all have done, or why the caller must roll back */
  apply(writes: readonly Write[]): Effects | Refusal {
    for (const write of writes) {
      const outcome = this.#apply(write);
      if (outcome !== "written") return outcome;
    }
    return this.#effects;
  }

  #apply(write: Write): RowOutcome {
    if ("remove" in write) return this.#remove(write) ? "written" : "conflict";
    const { rows, keyWriter, accounts } = this.#tables;
    if (write.table === "keys") return keyWriter.store(write.row, write.credits, this.#effects);
    const { table, row } = write;
    // A new row changes no existing key, except a workspace: keys do not need a row of their workspace.
    if (row.version > 0 || table === "workspaces") this.#addChangeOf(table, row.id);
    if (table === "rootKeys") this.#effects.changes.push({ digest: row.digest });
    const outcome = rows.store(table, row);
    if (!isCreditWrite(write) || outcome !== "written") return outcome;
    const account = accounts.numberOf(write.table, row.id);
    const balance = account === undefined ? undefined : writeBalance(accounts, account, write);
    if (balance === undefined) return "conflict";
    this.#effects.balances.push(balance);
    return outcome;
  }

  /** @returns false: the row is gone, has another version, or is drawn on */
  #remove({ table, remove: id, version }: Extract<Write, { readonly remove: string }>): boolean {
    const { rows, keyWriter, accounts } = this.#tables;
    if (table === "keys") return keyWriter.remove(id, version, this.#effects.changes);
    // Before the row is removed: afterwards its keys cannot be found.
    this.#addChangeOf(table, id);
    if (table === "identities" && !keyWriter.forgetIdentity(id)) return false;
    const account = table === "identities" || table === "grants" ? accounts.numberOf(table, id) : undefined;
    if (account !== undefined) accounts.removeUnused(account);
    return removing(() => rows.remove(table, id, version));
  }

  /** Adds the change that a find could see of the existing row. */
  #addChangeOf(table: Exclude<Table, "keys">, id: string): void {
    const { changes } = this.#effects;
    if (table === "identities") return this.#tables.keyWriter.addIdentityChange(id, changes);
    if (table === "rootKeys") {
      const [old] = this.#tables.rows.readMany(table, [id]);
      if (old !== undefined) changes.push({ digest: old.digest });
    } else if (isFoundWithKeys(table)) changes.push("all");
  }
}

function removing(remove: () => boolean): boolean {
  try {
    return remove();
  } catch (cause) {
    if (resultName(cause) !== "CONSTRAINT") throw cause;
    throw new KeystileError("CONFLICT", "an API that still has keys cannot be removed", { cause });
  }
}
