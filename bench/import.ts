/** How fast are 1,000,000 hashed keys imported from NDJSON, durably, and is it as fast at the end as at the start? */
import { rmSync } from "node:fs";
import type { V2KeysMigrateKeyData } from "../src/contracts/types.js";
import { createKeyring } from "../src/keyring/keyring.js";
import { sqliteStore, type SqliteStoreOptions } from "../src/stores/sqlite/index.js";
import { createVerifier } from "../src/verify/verifier.js";
import { report, type Row, scaled } from "./harness.js";
import { digestOf, keyText, PERMISSIONS, sample } from "./keys.js";
import { readLines, writeLines } from "./lines.js";
import { kept, scratch } from "./stores.js";
import { compileWriter } from "./writer.js";

const KEYS = scaled(1_000_000, 10_000);
const STRETCH = KEYS / 10;
const ROUNDS = scaled(5, 1);
/** Keys of the file that are verified after each import. */
const TRIED = 500;
const MIGRATION = "bench";

/** About 300 bytes: 1.4 µs of JSON.parse, 700,000 a second. */
function keyData(n: number): V2KeysMigrateKeyData {
  return {
    hash: digestOf(n),
    name: `Key ${n}`,
    externalId: `customer_${n % 5_000}`,
    meta: { plan: "team", seats: n % 40 },
    permissions: PERMISSIONS,
    credits: { remaining: 1_000_000 },
    ratelimits: [{ name: "requests", limit: 600, duration: 60_000, autoApply: true }],
  };
}

/** Who writes, and how many keys at a time. */
interface Way {
  readonly name: string;
  readonly writer: NonNullable<SqliteStoreOptions["writer"]>;
  readonly batchSize: number;
  readonly imports: Import[];
}

/** What one import took, nanoseconds a key, and the memory that it was seen to use. */
interface Import {
  readonly all: number;
  readonly first: number;
  readonly last: number;
  readonly residentMB: number;
}

async function* readKeys(path: string): AsyncGenerator<V2KeysMigrateKeyData> {
  for (const lines of readLines(path)) for (const line of lines) yield JSON.parse(line) as V2KeysMigrateKeyData;
}

/** Into a new file, power-durable, as a program would do it. */
async function importOnce(ndjson: string, { writer, batchSize }: Way): Promise<Import> {
  const path = scratch("import.db");
  const store = sqliteStore(path, { writer });
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "bench" });
  await keyring.createMigration({ id: MIGRATION, algorithm: "sha256" });

  let resident = 0;
  let [firstEnd, lastBegin] = [NaN, NaN];
  const began = performance.now();
  const { totals } = await keyring.migrateKeys(
    { migrationId: MIGRATION, apiId, keys: readKeys(ndjson) },
    {
      batchSize,
      onBatch: () => void (resident = Math.max(resident, process.memoryUsage.rss())),
      onProgress({ migrated }) {
        if (migrated === STRETCH) firstEnd = performance.now();
        if (migrated === KEYS - STRETCH) lastBegin = performance.now();
      },
    },
  );
  const end = performance.now();
  if (totals.migrated !== KEYS || totals.failed !== 0)
    throw new Error(`${totals.migrated} of ${KEYS} keys were imported`);

  const verifier = createVerifier(store);
  for (const n of sample(KEYS).slice(0, TRIED)) {
    const { code } = await verifier.verify({ key: keyText(n), permissions: PERMISSIONS[0] });
    if (code !== "VALID") throw new Error(`an imported key answered ${code}`);
  }
  await verifier.close();
  await store.close();
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
  const perKey = (ms: number, keys: number): number => (ms * 1e6) / keys;
  return {
    all: perKey(end - began, KEYS),
    first: perKey(firstEnd - began, STRETCH),
    last: perKey(end - lastBegin, STRETCH),
    residentMB: resident / 2 ** 20,
  };
}

/** The parsing alone, without reading the file; nanoseconds a line. */
function parseOnce(ndjson: string): number {
  let ms = 0;
  let parsed = 0;
  for (const lines of readLines(ndjson)) {
    const began = performance.now();
    for (const line of lines) if ((JSON.parse(line) as V2KeysMigrateKeyData).hash.length === 44) parsed++;
    ms += performance.now() - began;
  }
  if (parsed !== KEYS) throw new Error(`${parsed} of ${KEYS} lines were parsed`);
  return (ms * 1e6) / KEYS;
}

const ndjson = await kept(`import-${KEYS}.ndjson`, (path) => writeLines(path, KEYS, keyData));
const inline: Way = { name: "inline", writer: "inline", batchSize: 1_000, imports: [] };
// Two transactions a batch: the second is made ready while the thread writes the first.
const thread: Way = {
  name: "writer thread",
  writer: await compileWriter(),
  batchSize: scaled(2_000, 1_000),
  imports: [],
};
const parses: number[] = [];
const before = process.memoryUsage.rss() / 2 ** 20;
for (let round = 0; round < ROUNDS; round++) {
  parses.push(parseOnce(ndjson));
  for (const way of [inline, thread]) way.imports.push(await importOnce(ndjson, way));
}

const FLOOR = "bare JSON.parse of the same lines";
const rowsOf = ({ name, imports }: Way): Row[] => {
  const row = (what: string, read: (one: Import) => number, unit: Row["unit"] = "ns"): Row => ({
    name: `${name}: ${what}`,
    unit,
    values: imports.map(read),
  });
  const first = row("the first tenth", (one) => one.first);
  return [
    { ...row("all, power-durable", ({ all }) => all), floor: FLOOR },
    first,
    { ...row("the last tenth", ({ last }) => last), floor: first.name },
    row("resident memory at most, seen after each batch", ({ residentMB }) => residentMB, "MB"),
  ];
};
const [overlapped, ...rest] = rowsOf(thread);
report({
  question:
    "How fast are 1,000,000 hashed keys imported from NDJSON, durably, and is it as fast at the end as at the start?",
  rows: [
    { name: FLOOR, unit: "ns", values: parses },
    { name: "resident memory before", unit: "MB", values: [before] },
    ...rowsOf(inline),
    { ...(overlapped as Row), goal: "≥ 100,000 /s where the floor does 700,000 /s (7)" },
    ...rest,
  ],
});
