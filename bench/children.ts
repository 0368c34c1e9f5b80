/** What benches of several processes share. */
import type { ChildProcess } from "node:child_process";

/** @throws Error (rejects) if the process ends first */
export const nextMessage = (child: ChildProcess): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const fail = (): void => reject(new Error("a process of the bench ended early"));
    child.once("exit", fail);
    child.once("message", (message) => {
      child.off("exit", fail);
      resolve(message);
    });
  });
