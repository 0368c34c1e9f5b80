/** Holds a lock of a file, as a process does that stalls in a transaction, until it is told to let go. */
import Database from "better-sqlite3";

export interface HoldOrders {
  readonly file: string;
  /**
   * `EXCLUSIVE` keeps readers out too, where the file has no write-ahead log. `READ`: a read transaction, which keeps
   * nobody out, and the log from being begun anew.
   */
  readonly lock: "IMMEDIATE" | "EXCLUSIVE" | "READ";
}

const { file, lock } = JSON.parse(process.argv[2]!) as HoldOrders;
const db = new Database(file);
db.exec(lock === "READ" ? "BEGIN; SELECT count(*) FROM keystile_keys" : `BEGIN ${lock}`);
process.once("message", () => {
  db.exec("COMMIT");
  db.close();
  process.disconnect();
});
process.send!({ holds: true });
