/** Imports the seed files through the keyring, and counts what went in and why the rest did not. */
import type { Keyring } from "../../src/keyring/keyring.js";
import { pathOf, readNdjson } from "./files.js";
import type { SeedFile } from "./seed.js";
import type { Screen } from "./terminal.js";

/** What became of one file. */
export interface Imported {
  readonly migrationId: string;
  readonly algorithm: string;
  readonly lines: number;
  readonly migrated: number;
  readonly failed: number;
  /** How many failed, by reason. */
  readonly reasons: Readonly<Record<string, number>>;
  readonly milliseconds: number;
}

const BATCH = 500;

/** Reads one NDJSON file line by line into the API. */
export async function importFile(keyring: Keyring, apiId: string, seed: SeedFile, screen: Screen): Promise<Imported> {
  const { migrationId, algorithm } = seed;
  const lines = seed.lines.length;
  const reasons: Record<string, number> = {};
  const progress = screen.progress(pathOf(seed), lines);
  const began = performance.now();
  const { totals } = await keyring.migrateKeys(
    { migrationId, apiId, keys: readNdjson(pathOf(seed)) },
    {
      batchSize: BATCH,
      onProgress: ({ migrated, failed }) => progress.update(migrated + failed),
      onBatch({ failed }) {
        for (const { reason } of failed) reasons[reason] = (reasons[reason] ?? 0) + 1;
      },
    },
  );
  const milliseconds = performance.now() - began;
  progress.stop();
  return { migrationId, algorithm, lines, ...totals, reasons, milliseconds };
}

/**
 * Whether a file went in as it must: on a new database all but the planted faults, on one that had it nothing at all.
 */
export function isAsExpected(imported: Imported, seed: SeedFile, isFirstRun: boolean): boolean {
  const { UNKNOWN_ROLE: roles = 0, INVALID_HASH: hashes = 0 } = seed.failures;
  const { reasons } = imported;
  const there = isFirstRun ? (seed.failures["ALREADY_EXISTS"] ?? 0) : seed.lines.length - roles - hashes;
  return (
    imported.migrated === (isFirstRun ? seed.keys.length : 0) &&
    imported.migrated + imported.failed === seed.lines.length &&
    (reasons["ALREADY_EXISTS"] ?? 0) === there &&
    reasons["UNKNOWN_ROLE"] === roles &&
    reasons["INVALID_HASH"] === hashes
  );
}
