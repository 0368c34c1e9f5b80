/** What the rigs on a real PostgreSQL server share. */
import pg from "pg";
import { createKeyring } from "../../src/keyring/keyring.js";
import { postgresStore, type PostgresStore, type PostgresStoreOptions } from "../../src/stores/postgres/index.js";

/** A node in this process. */
export interface Node {
  readonly pool: pg.Pool;
  readonly store: PostgresStore;
  close(): Promise<void>;
}

export function openNode(url: string, options: PostgresStoreOptions = {}, config: pg.PoolConfig = {}): Node {
  const pool = new pg.Pool({ connectionString: url, max: 6, connectionTimeoutMillis: 2_000, ...config });
  pool.on("error", () => undefined);
  const store = postgresStore(pool, options);
  return {
    pool,
    store,
    async close() {
      await store.close();
      await pool.end();
    },
  };
}

export interface MadeKey {
  readonly key: string;
  readonly keyId: string;
}

/** Sets up a database with as many keys. @param remaining credits of each; absent: unlimited */
export async function makeKeys(url: string, count: number, remaining?: number): Promise<MadeKey[]> {
  const { store, close } = openNode(url);
  try {
    await store.setUp();
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "rig" });
    const made: MadeKey[] = [];
    for (let i = 0; i < count; i++)
      made.push(await keyring.createKey({ apiId, ...(remaining !== undefined && { credits: { remaining } }) }));
    return made;
  } finally {
    await close();
  }
}

/** The `p`-th part of the values, 0…1. */
export function percentile(values: readonly number[], p: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? NaN;
}

/** Every text in an error, as a log might print it: its own properties, hidden ones too, and its causes. */
export function textsOf(error: unknown, seen = new Set<unknown>()): string[] {
  if (typeof error === "string") return [error];
  if (typeof error !== "object" || error === null || seen.has(error)) return [String(error)];
  seen.add(error);
  return Reflect.ownKeys(error).flatMap((name) => [
    String(name),
    ...textsOf((error as Record<PropertyKey, unknown>)[name], seen),
  ]);
}

/** Collects errors, and finds what must not be in them. */
export function createCanaries(secrets: readonly string[]) {
  const kinds = new Map<string, number>();
  const leaks = new Set<string>();
  return {
    /** How often each code was met. */
    kinds,
    leaks,
    add(error: unknown): void {
      const code = (error as { code?: string }).code ?? String(error);
      kinds.set(code, (kinds.get(code) ?? 0) + 1);
      const texts = textsOf(error).join("\n");
      for (const [i, secret] of secrets.entries()) if (texts.includes(secret)) leaks.add(`secret ${i} in ${code}`);
    },
  };
}
