/** Backups and restores in this thread, as the command line makes them. */
import { temporaryName } from "../../../../src/stores/sqlite/backup/files.js";
import { makeBackup as make, type SqliteBackup } from "../../../../src/stores/sqlite/backup/make-backup.js";
import { restoreBackup, type Restored } from "../../../../src/stores/sqlite/backup/restore.js";

export interface MakeOrder {
  readonly path: string;
  readonly target: string;
}

export function makeBackup({ path, target }: MakeOrder): SqliteBackup {
  return make({ path, target, temporary: temporaryName(target), readonly: false, busyTimeout: 1_000 });
}

export function restore(backup: string, path: string, force = false): Restored {
  return restoreBackup(backup, path, { force, now: Date.UTC(2027, 0, 31, 12), onProgress: () => undefined });
}
