/** Holds the lock of a file, as a process does that stalls in a transaction, until it is told to let go. */
import Database from "better-sqlite3";

export interface HoldOrders {
  readonly file: string;
  /** `EXCLUSIVE` keeps readers out too, where the file has no write-ahead log. */
  readonly lock: "IMMEDIATE" | "EXCLUSIVE";
}

const { file, lock } = JSON.parse(process.argv[2]!) as HoldOrders;
const db = new Database(file);
db.exec(`BEGIN ${lock}`);
process.once("message", () => {
  db.exec("COMMIT");
  db.close();
  process.disconnect();
});
process.send!({ holds: true });
