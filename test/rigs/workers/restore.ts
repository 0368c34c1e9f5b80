/**
 * Restores a backup over a database and kills itself before a chosen call of the file system. Tells how many calls it
 * took if it lived.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { restoreBackup } from "../../../src/stores/sqlite/backup/restore.js";

export interface RestoreOrders {
  readonly from: string;
  readonly file: string;
  /** The call that is not made, counted from 1; 0: none. */
  readonly dieAt: number;
  /** The planted fault: files are moved one after the other. */
  readonly fault?: "moves the log first";
}

const orders = JSON.parse(process.argv[2]!) as RestoreOrders;
let calls = 0;
for (const name of ["openSync", "writeSync", "fsyncSync", "linkSync", "renameSync", "rmSync"] as const) {
  const real = fs[name] as (...given: unknown[]) => unknown;
  Object.assign(fs, {
    [name]: (...given: unknown[]) => {
      if (++calls === orders.dieAt) process.kill(process.pid, "SIGKILL");
      return real(...given);
    },
  });
}
syncBuiltinESMExports();

if (orders.fault === undefined)
  restoreBackup(orders.from, orders.file, { force: true, now: 0, onProgress: () => undefined });
else {
  if (fs.existsSync(`${orders.file}-wal`)) fs.renameSync(`${orders.file}-wal`, `${orders.file}.old-wal`);
  fs.renameSync(orders.file, `${orders.file}.old`);
  fs.renameSync(orders.from, orders.file);
}
process.send!({ calls }, () => process.disconnect());
