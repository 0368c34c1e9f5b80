/**
 * better-auth's API-key plugin, through its server API, on its memory adapter and on SQLite as it opens it by default.
 */
import { apiKey } from "@better-auth/api-key";
import { betterAuth, type Auth } from "better-auth";
import { memoryAdapter } from "better-auth/adapters/memory";
import { getMigrations } from "better-auth/db/migration";
import Database from "better-sqlite3";
import { openPool } from "../connect.js";
import { scratch } from "../stores.js";
import { type Checks, type Contestant, type Gate, grantsOf, lettersOf, type Terms } from "./contestant.js";

const CHECKS: Omit<Checks, "credits"> = {
  permissions: "all of a list; no OR, no wildcard",
  limit: "one a key; fixed window that every call that passes begins anew",
  revocation: "at once",
};

/** A name with dots, as the plugin has permissions: actions by resource. */
const byResource = (names: readonly string[]): Record<string, string[]> =>
  Object.fromEntries(names.map((name) => name.split(".")).map(([resource = "", action = ""]) => [resource, [action]]));

/** Without the OR, which cannot be asked. */
const ASKED = byResource(["documents.read", "reports.export"]);

type Answer = { readonly valid: boolean };

/** @param another opens the same database once more */
async function open(
  auth: Auth,
  shut: () => void | Promise<void>,
  keys: number,
  { credits, limit, duration }: Terms,
  another?: () => readonly [Auth, () => Promise<void>],
): Promise<Gate<Answer>> {
  const { adapter } = await auth.$context;
  const owner = {
    name: "Peer",
    email: "peer@example.com",
    emailVerified: true,
    createdAt: new Date(),
    updatedAt: new Date(),
  };
  const { id: userId } = await adapter.create({ model: "user", data: owner });
  const made: { id: string; key: string }[] = [];
  for (let n = 0; n <= keys; n++) {
    const limits = { rateLimitEnabled: true, rateLimitMax: limit, rateLimitTimeWindow: duration };
    const body = { userId, remaining: credits, permissions: byResource(grantsOf(n, keys)), ...limits };
    made.push(await auth.api.createApiKey({ body }));
  }
  const bodies = [...made.map(({ key }) => key), lettersOf(-1, 64)].map((key) => ({
    body: { key, permissions: ASKED },
  }));
  const gateOf = (asked: Auth, close: () => void | Promise<void>): Gate<Answer> => ({
    verify: (n) => asked.api.verifyApiKey(bodies[n]!),
    passes: ({ valid }) => valid,
    async balance(n) {
      const row = await adapter.findOne({ model: "apikey", where: [{ field: "id", value: made[n]!.id }] });
      return row?.["remaining"] as number | undefined;
    },
    close,
    ...(another !== undefined && { join: async () => gateOf(...another()) }),
  });
  return gateOf(auth, shut);
}

const common = () => {
  let made = 0;
  return {
    secret: lettersOf(-2, 32),
    baseURL: "http://localhost",
    logger: { disabled: true },
    telemetry: { enabled: false },
    plugins: [apiKey({ customKeyGenerator: () => lettersOf(made++, 64) })],
  };
};

/** Keys as a list in memory. */
export const betterAuthMemory: Contestant<Answer> = {
  name: "better-auth, API-key plugin, memory adapter",
  checks: { ...CHECKS, credits: "one a call, taken before the limit is asked; in memory" },
  async open(keys, terms) {
    const tables = { user: [], session: [], account: [], verification: [], apikey: [] };
    return open(betterAuth({ ...common(), database: memoryAdapter(tables) }), () => undefined, keys, terms);
  },
};

let files = 0;

/** Keys in a file: better-sqlite3 as it comes, a rollback journal with synchronous FULL. */
export const betterAuthSqlite: Contestant<Answer> = {
  name: "better-auth, API-key plugin, SQLite (default)",
  checks: { ...CHECKS, credits: "one a call, taken before the limit is asked; survives a power cut" },
  async open(keys, terms) {
    const database = new Database(scratch(`peers-better-auth-${++files}.db`));
    const auth = betterAuth({ ...common(), database });
    await (await getMigrations(auth.options)).runMigrations();
    return open(auth, () => void database.close(), keys, terms);
  },
};

/** Keys in PostgreSQL, through a pool of `pg`. @param newDatabase makes an empty one, and tells its address */
export const betterAuthPostgres = (newDatabase: () => Promise<string>): Contestant<Answer> => ({
  name: "better-auth, API-key plugin, PostgreSQL",
  checks: { ...CHECKS, credits: "one a call, taken before the limit is asked; survives a power cut" },
  async open(keys, terms) {
    const url = await newDatabase();
    const connect = (): readonly [Auth, () => Promise<void>] => {
      const database = openPool(url);
      return [betterAuth({ ...common(), database }), () => database.end()];
    };
    const [auth, close] = connect();
    await (await getMigrations(auth.options)).runMigrations();
    return open(auth, close, keys, terms, connect);
  },
});
