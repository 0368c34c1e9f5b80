/** The rig of kills during `keystile restore --force`: before each call of the file system once. docs/operations.md. */
import { copyFileSync, existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isKeystileError } from "../../src/contracts/errors.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { temporaryName } from "../../src/stores/sqlite/backup/files.js";
import { makeBackup } from "../../src/stores/sqlite/backup/make-backup.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { buildWorker, ended, nextMessage, rigFolder, startWorker } from "./workers.js";
import type { RestoreOrders } from "./workers/restore.js";

export interface RestoreReport {
  readonly kills: number;
  /** What the database was after a kill: as before, restored, or refused because of the log beside it. */
  readonly before: number;
  readonly restored: number;
  readonly refused: number;
  /** What it was besides, or what was lost of the old database: must be empty. */
  readonly problems: readonly string[];
}

/** Balances of the key: in the backup, and in the old database, whose last deduction is in its log alone. */
const OF_BACKUP = 50;
const OF_DATABASE = 39;

/** @param isMixed the database that is there is a backup beside the log of another, which nothing can carry over */
export async function runRestores(isMixed: boolean, fault?: RestoreOrders["fault"]): Promise<RestoreReport> {
  const folder = rigFolder();
  const worker = await buildWorker("restore");
  const totals = { kills: 0, before: 0, restored: 0, refused: 0 };
  const problems: string[] = [];
  try {
    const { database, backup, keyId } = await prepare(folder, isMixed);
    for (let dieAt = 1, isDone = false; !isDone; dieAt++) {
      const place = join(folder, String(dieAt));
      const [file, from] = [`${place}-keys.db`, `${place}-backup.db`];
      copyFileSync(backup, from);
      for (const end of ["", "-wal"]) copyFileSync(`${database}${end}`, `${file}${end}`);
      const child = startWorker(worker, { from, file, dieAt, ...(fault && { fault }) } satisfies RestoreOrders);
      isDone = await nextMessage(child).then(
        () => true,
        () => false,
      );
      await ended(child);
      if (!isDone && child.signalCode !== "SIGKILL") throw new Error("the worker ended by itself");
      if (!isDone) totals.kills++;
      const found = await balanceIn(file, keyId);
      if (found === OF_DATABASE) totals.before++;
      else if (found === OF_BACKUP) totals.restored++;
      else if (found === "STORE_INVALID" && (isMixed || (await isKept(file, keyId)))) totals.refused++;
      else problems.push(`killed before call ${dieAt}: ${found}`);
      if (isDone && found !== OF_BACKUP) problems.push(`restored: ${found}`);
    }
    return { ...totals, problems };
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(worker, { force: true });
  }
}

async function prepare(
  folder: string,
  isMixed: boolean,
): Promise<{ readonly database: string; readonly backup: string; readonly keyId: string }> {
  const [live, backup, database] = ["live", "backup", "database"].map((name) => join(folder, `${name}.db`)) as [
    string,
    string,
    string,
  ];
  const first = sqliteStore(live);
  const keyring = createKeyring(first);
  const { apiId } = await keyring.createApi({ name: "restores" });
  const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: OF_BACKUP } });
  makeBackup({ path: live, target: backup, temporary: temporaryName(backup), readonly: false, busyTimeout: 1_000 });
  await createVerifier(first).verify({ key, credits: { cost: OF_BACKUP - OF_DATABASE - 1 } });
  await first.close();
  const store = sqliteStore(live);
  await createVerifier(store).verify({ key });
  copyFileSync(isMixed ? backup : live, database);
  copyFileSync(`${live}-wal`, `${database}-wal`);
  await store.close();
  return { database, backup, keyId };
}

/** The balance, or the code of the error with which opening or reading fails. */
async function balanceIn(file: string, keyId: string): Promise<number | string> {
  try {
    const store = sqliteStore(file, { mustExist: true });
    const { credits } = await createKeyring(store).getKey({ keyId });
    await store.close();
    return credits!.remaining!;
  } catch (error) {
    if (isKeystileError(error)) return error.code;
    throw error;
  }
}

async function isKept(file: string, keyId: string): Promise<boolean> {
  const aside = `${file}.before-restore-19700101T000000Z`;
  return existsSync(aside) && (await balanceIn(aside, keyId)) === OF_DATABASE;
}
