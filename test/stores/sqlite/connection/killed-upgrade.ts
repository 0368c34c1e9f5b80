/** Run as a process of its own: it is killed after the last step of an upgrade, before the transaction ends. */
import { loadDriver, openFile } from "../../../../src/stores/sqlite/connection/driver.js";
import { prepareSchema } from "../../../../src/stores/sqlite/connection/schema.js";
import { createTransact } from "../../../../src/stores/sqlite/connection/transaction.js";

const [path = "", steps = "[]"] = process.argv.slice(2);
const handle = openFile(loadDriver(), path, { readonly: false, fileMustExist: true, timeout: 0 });
const transact = createTransact(handle);
prepareSchema(
  handle,
  (work) =>
    transact(() => {
      work();
      process.kill(process.pid, "SIGKILL");
      return undefined;
    }),
  JSON.parse(steps) as string[],
);
