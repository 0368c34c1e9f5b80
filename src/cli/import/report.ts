/** Prints the responses of many requests as one, in bounded memory, and writes failed keys to a file (spec §4.2). */
import { constants, statSync } from "node:fs";
import { type FileHandle, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V2KeysMigrateKeyData } from "../../contracts/types.js";
import { EXIT, failure, usage } from "../io/failures.js";
import type { Io } from "../io/io.js";
import { stripControlChars, toJson } from "../io/text.js";

/** `data` of one response of `keys.migrateKeys`. */
export interface MigrationData {
  readonly migrated: readonly { readonly hash: string; readonly keyId: string }[];
  readonly failed: readonly string[];
}

/** @throws failure 3 if the server returned something else */
export function readMigration(data: unknown): MigrationData {
  const { migrated, failed } = (data ?? {}) as Partial<MigrationData>;
  if (Array.isArray(migrated) && Array.isArray(failed)) return { migrated, failed };
  throw failure(
    EXIT.failed,
    "the server answered without `migrated` and `failed`; is the address that of this service?",
  );
}

/** Output of the responses, added one by one. */
export interface Listing {
  add(requestId: string, data: MigrationData): Promise<void>;
  /** Completes the output, even if the import was not completed. */
  end(): Promise<void>;
}

/** Prints nothing: for a terminal. */
export const NO_LISTING: Listing = { add: async () => undefined, end: async () => undefined };

/**
 * Prints the responses as one: `migrated` as they arrive, `failed` at the end. Failed hashes are spooled to a temporary
 * file, since on a second run they may be a million.
 * @param isEnvelope the full envelope; else the request id, then the data. The request id is that of the first request.
 */
export function createListing(io: Io, isEnvelope: boolean): Listing {
  let spool: { readonly folder: string; readonly file: FileHandle } | undefined;
  let hasBegun = false;
  let migrated = 0;
  let failed = 0;
  const begin = async (requestId: string): Promise<void> => {
    hasBegun = true;
    const folder = await mkdtemp(join(tmpdir(), "keystile-"));
    spool = { folder, file: await open(join(folder, "failed"), "w+", 0o600) };
    // Removed at once, so that a killed process leaves nothing; where open files cannot be removed, at the end.
    await remove(folder);
    await io.stdout.write(
      isEnvelope
        ? `{"meta":${toJson({ requestId })},"data":{"migrated":[`
        : `${stripControlChars(requestId)}\n{"migrated":[`,
    );
  };
  return {
    async add(requestId, data) {
      if (!hasBegun) await begin(requestId);
      await io.stdout.write(data.migrated.map((one) => `${migrated++ === 0 ? "" : ","}\n${toJson(one)}`).join(""));
      await spool?.file.write(data.failed.map((hash) => `${failed++ === 0 ? "" : ","}\n${toJson(hash)}`).join(""));
    },
    async end() {
      if (spool === undefined) return;
      await io.stdout.write('\n],"failed":[');
      for await (const text of spool.file.createReadStream({ start: 0, encoding: "utf8", autoClose: false })) {
        await io.stdout.write(text as string);
      }
      await io.stdout.write(isEnvelope ? "\n]}}\n" : "\n]}\n");
      await spool.file.close();
      await remove(spool.folder);
      spool = undefined;
    },
  };
}

/** Errors are ignored: the system clears its temporary folder. */
const remove = (folder: string): Promise<void> => rm(folder, { recursive: true, force: true }).catch(() => undefined);

/** Collects the keys that failed. */
export interface FailureFile {
  add(keys: readonly V2KeysMigrateKeyData[], failed: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export const NO_FAILURE_FILE: FailureFile = { add: async () => undefined, close: async () => undefined };

/**
 * Creates the file of `--failures`: one key per line, as given, so that they can be corrected and imported again.
 * @param source `--keys` or `--body` as given: it must not be the same file
 * @throws failure 2 if it cannot be created
 */
export async function openFailureFile(path: string, source: string): Promise<FailureFile> {
  if (source.startsWith("@") && isSameFile(source.slice(1), path))
    throw usage("--failures: is the file that the keys come from");
  let file: FileHandle;
  try {
    // Through no link, and for its owner alone, also if it was there: it has keys' data.
    const { O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants;
    file = await open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600);
    await file.chmod(0o600);
  } catch (error) {
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    const why = code === "ELOOP" ? "is a symbolic link; name the file itself" : `cannot be written (${code})`;
    throw usage(`--failures: ${path}: ${why}`);
  }
  return {
    async add(keys, failed) {
      const lines = keysOf(keys, failed).map((key) => `${JSON.stringify(key)}\n`);
      if (lines.length > 0) await file.write(lines.join(""));
    },
    close: () => file.close(),
  };
}

/** Also through links: writing to the file would destroy its keys. */
function isSameFile(one: string, other: string): boolean {
  try {
    const [first, second] = [statSync(one, { bigint: true }), statSync(other, { bigint: true })];
    return first.dev === second.dev && first.ino === second.ino;
  } catch {
    // One of them does not exist yet.
    return false;
  }
}

/** The keys that failed, by hash. Of several keys with the same hash the later ones, since the first is inserted. */
function keysOf(keys: readonly V2KeysMigrateKeyData[], failed: readonly string[]): V2KeysMigrateKeyData[] {
  const left = new Map<string, number>();
  for (const hash of failed) left.set(hash, (left.get(hash) ?? 0) + 1);
  const found: V2KeysMigrateKeyData[] = [];
  for (const key of keys.toReversed()) {
    const times = left.get(key.hash) ?? 0;
    if (times > 0) found.push(key);
    left.set(key.hash, times - 1);
  }
  return found.reverse();
}
