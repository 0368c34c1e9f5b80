/**
 * The PostgreSQL store to simulate on: a handle for each client on one database in this process. Clients wait at each
 * statement, not at each call, so that what a handle itself interleaves is simulated too: grouped calls, polls in
 * flight, retries, deadlines and listeners. Statements go wrong as connections do; the judge is told of a statement
 * once it has run, with the calls that it carries.
 */
import { PGlite } from "@electric-sql/pglite";
import { isKeystileError } from "../../src/contracts/errors.js";
import type {
  CountedBalance,
  Draw,
  DrawRequest,
  KeyRecord,
  KeyRef,
  LeaseReturn,
  NewKey,
  OnceSpend,
  Settlement,
  SettleRequest,
  Spend,
  Store,
} from "../../src/contracts/store.js";
import { trust } from "../../src/lib/guards/trusted.js";
import { type PostgresClient, type PostgresRow, postgresStore } from "../../src/stores/postgres/index.js";
import { dice } from "../model/dice.js";
import type { Client } from "./client.js";
import type { Ledger, Note } from "./ledger.js";
import { ofOneAccount, type Fate, suspend } from "./ports.js";
import type { Bed, Connections } from "./world.js";

/** What a statement is, by a part of its text. Others only read: none of them calls a function of the schema. */
const STATEMENTS = [
  [".group_v1('spend_v1'", "spendCredits"],
  [".once_group_v1(", "spendOnce"],
  [".group_v1('draw_v1'", "drawCredits"],
  [".group_v1('end_leases_v1'", "returnCredits"],
  [".group_v1('settle_reservations_v1'", "settleCredits"],
  [".write_v2(", "write"],
  [".insert_keys_v1(", "insertKeys"],
  [".adopt_v1(", "adoptDigest"],
  ["l.account = a.number", "readBalances"],
  ["pg_current_snapshot()", "pollChanges"],
  ["pg_notify(", "notify"],
] as const;

/** How a client of PostgreSQL says what went wrong. */
const ERRORS: Readonly<Record<Fate, string>> = {
  busy: "ECONNREFUSED",
  full: "53100",
  failed: "ECONNRESET",
  lost: "ECONNRESET",
  late: "08006",
};

const SCHEMA = "simulation";
/** Milliseconds for what no client does: the database starts slowly on a busy machine. */
const PATIENCE = 120_000;
const TABLES = [
  "leases",
  "reservations_ended",
  "keys",
  "entities",
  "accounts",
  "changes",
  "audit",
  "idempotency",
  "idempotency_counts",
];

let server: Promise<PGlite> | undefined;

/** One database for all schedules: making one takes longer than a schedule. */
function shared(): Promise<PGlite> {
  return (server ??= (async () => {
    const made = await PGlite.create();
    await postgresStore(made, { schema: SCHEMA, timeout: PATIENCE }).setUp();
    return made;
  })());
}

/** Ends the database of all schedules, if there was one. */
export async function endPostgres(): Promise<void> {
  const made = await server;
  server = undefined;
  await made?.close();
}

/** One database: each client has a handle of its own, which a crash abandons. */
export async function postgresBed(seed: number): Promise<Bed> {
  const database = await shared();
  const raw: PostgresClient = { query: (text, values) => database.query(text, values) };
  const direct = postgresStore(raw, { schema: SCHEMA, timeout: PATIENCE });
  const seen = new Snapshot(raw, direct);
  return {
    open: () => direct,
    probe: seen.probe,
    connections: connectionsOf(seed, raw, seen, direct),
    async close() {
      await direct.close();
      await database.exec(TABLES.map((table) => `DELETE FROM ${SCHEMA}.${table};`).join(""));
    },
  };
}

function connectionsOf(seed: number, raw: PostgresClient, seen: Snapshot, direct: Store): Connections {
  const options = optionsOf(seed);
  const calls = new WeakMap<Client, Calls>();
  const bells = new Map<Client, (payload: string) => void>();
  return {
    bound: options.bound,
    direct,
    look: () => seen.look(),
    open(client, ledger, plant) {
      const own = new Calls(client, ledger);
      calls.set(client, own);
      const waiting: PostgresClient = {
        query(text, values) {
          const method = methodOf(text);
          own.sent(method, values);
          return suspend(client, method, [text, values], fateOf);
        },
        ...(client.hearsAtOnce && {
          listen: (_: string, onNotify: (payload: string) => void) => void bells.set(client, onNotify),
        }),
      };
      const store = postgresStore(plant?.(waiting) ?? waiting, { ...options, schema: SCHEMA });
      return own.follow(store);
    },
    async run({ client, method, given }) {
      const [text, values] = given as [string, (string | null)[]];
      const result = (await raw.query(text, values)) as { rows: PostgresRow[] };
      if (method === "write" || method === "insertKeys" || method === "adoptDigest") await seen.look();
      else if (method.startsWith("spend") || (method.endsWith("Credits") && method !== "readBalances"))
        await seen.lookAtBalances();
      return { result, notes: await calls.get(client)!.carriedBy(method, values, result.rows, direct) };
    },
    *ringsOf({ method, given }) {
      if (method !== "notify") return;
      const [, payload] = (given as [string, string[]])[1];
      for (const [client, hear] of bells) if (!client.isDead) yield [client, () => hear(payload!)] as const;
    },
  };
}

function methodOf(text: string): string {
  const [, method = "read"] = STATEMENTS.find(([part]) => text.includes(part)) ?? [];
  if (method === "read" && /_v\d+\(|\b(?:INSERT|UPDATE|DELETE)\b/.test(text))
    throw new Error(`not in the list of the simulator's statements: ${text.slice(0, 100)}`);
  return method;
}

function fateOf(fate: Fate): Error {
  return Object.assign(new Error(`made by the simulator: ${fate}`), { code: ERRORS[fate] });
}

/**
 * Small, so that time to wait for a poll is common. Not drawn with the world, whose seeds are those of the other
 * stores.
 */
function optionsOf(seed: number): { bound: number; poll: number; timeout: number } {
  const source = dice(seed ^ 0x5eed);
  const bound = source.pick([10, 50, 200, 2_000]);
  return { bound, poll: source.pick([1, bound / 2, bound]), timeout: source.pick([100, 1_000, 5_000]) };
}

/** Calls of which a statement does not say all: their arguments are kept until it is sent. */
const KEPT = ["write", "insertKeys", "readBalances"] as const;

type SpendTuple = readonly [number, number, number, number, string?, number?];
type DrawTuple = readonly [number, string, number, number, number, number, number, number];

/** The calls of one client that are in flight. */
class Calls {
  /** How many draws a holder waits for. */
  readonly #draws = new Map<string, number>();
  readonly #kept = new Map<string, (readonly unknown[])[]>(KEPT.map((name) => [name, []]));
  /** By the values of the statement, which are the same when it is sent again. */
  readonly #carried = new WeakMap<readonly unknown[], readonly unknown[]>();

  constructor(
    readonly client: Client,
    readonly ledger: Ledger,
  ) {}

  /** The store, with its calls noted. */
  follow(store: Store): Store {
    const { client, ledger } = this;
    const waits = (holder: string, change: number) =>
      void this.#draws.set(holder, (this.#draws.get(holder) ?? 0) + change);
    const keeping = KEPT.map((name) => {
      const queue = this.#kept.get(name)!;
      const keep = async (...given: readonly unknown[]): Promise<unknown> => {
        queue.push(given);
        try {
          return await (store[name] as (...given: readonly unknown[]) => unknown)(...given);
        } finally {
          remove(queue, given);
        }
      };
      return [name, keep] as const;
    });
    return trust({
      ...store,
      ...(Object.fromEntries(keeping) as unknown as Pick<Store, (typeof KEPT)[number]>),
      findKey: async (digest) => ofOneAccount(await store.findKey(digest)),
      findKeys: async (digests) => ofOneAccount(await store.findKeys(digests)),
      findForeignKey: async (migrationId, digest) => ofOneAccount(await store.findForeignKey(migrationId, digest)),
      async spendCredits(ref: KeyRef, cost: number, period: number, now: number) {
        try {
          return await store.spendCredits(ref, cost, period, now);
        } catch (error) {
          if (isUnknown(error)) client.lost(ledger.idOfRef(ref), cost);
          throw error;
        }
      },
      async settleCredits(ref: KeyRef, request: SettleRequest) {
        try {
          return await store.settleCredits(ref, request);
        } catch (error) {
          if (isUnknown(error)) client.lost(ledger.idOfRef(ref), request.spent);
          throw error;
        }
      },
      async drawCredits(ref: KeyRef, request: DrawRequest) {
        const { holder } = request;
        waits(holder, 1);
        try {
          const drawn = await store.drawCredits(ref, request);
          client.drawEnded(ledger.idOfRef(ref), holder, false);
          return drawn;
        } catch (error) {
          client.drawEnded(ledger.idOfRef(ref), holder, isUnknown(error));
          throw error;
        } finally {
          waits(holder, -1);
        }
      },
      returnCredits(ref: KeyRef, lease: LeaseReturn) {
        client.ends(lease);
        return store.returnCredits(ref, lease);
      },
    });
  }

  /** A statement is sent: statements of one kind are sent in the order of their calls. */
  sent(method: string, values: readonly unknown[]): void {
    const given = this.#carried.has(values) ? undefined : this.#kept.get(method)?.shift();
    if (given !== undefined) this.#carried.set(values, given);
  }

  /** The calls that a statement carried, which has just run. */
  async carriedBy(
    method: string,
    values: readonly unknown[],
    [row]: readonly PostgresRow[],
    direct: Store,
  ): Promise<Note[]> {
    const { client } = this;
    const results = (): never[] => JSON.parse(row!["result"] as string) as never[];
    const list = method.endsWith("Credits") ? (values[1] as string) : "[]";
    // A spend alone passes its numbers one by one.
    const tuples = (list.startsWith("[") ? JSON.parse(list) : [values.map(Number)]) as readonly never[][];
    const given = this.#carried.get(values) ?? [];
    switch (method) {
      case "spendCredits":
        return results().map((result: Spend | null, i) => {
          const [ref, cost, period, now, id, until] = tuples[i] as unknown as SpendTuple;
          const call =
            id === undefined
              ? { method, given: [ref, cost, period, now] }
              : { method: "reserveCredits" as const, given: [ref, period, { cost, now, reservation: { id, until } }] };
          return { ...call, result: result ?? undefined, isLost: client.isDead };
        });
      case "settleCredits":
        return results().map((result: Settlement, i) => {
          const [ref, id, spent, now] = tuples[i] as unknown as [number, string, number, number];
          return { method, given: [ref, { id, spent, now }], result, isLost: client.isDead };
        });
      case "drawCredits":
        return results().map((result: Draw | null, i) => {
          const [ref, holder, spent, cost, step, period, now, until] = tuples[i] as unknown as DrawTuple;
          const request = { holder, spent, cost, step, period, now, until, size: step };
          // Told of a failure already: the statement was late.
          const isLost = client.isDead || (this.#draws.get(holder) ?? 0) === 0;
          return { method, given: [ref, request], result: result ?? undefined, isLost };
        });
      case "returnCredits":
        return tuples.map(([ref, holder, spent]) => ({
          method,
          given: [ref, { holder, spent }],
          result: undefined,
          isLost: false,
        }));
      case "spendOnce": {
        type OnceCall = { n?: number; cost: number; period: number; now: number };
        const calls = JSON.parse(values[1] as string) as readonly OnceCall[];
        return results().flatMap(({ outcome, spend }: OnceSpend, i) => {
          const { n, cost, period, now } = calls[i]!;
          // Without a key or a balance nothing is taken.
          if (spend === undefined || n === undefined) return [];
          const spent = [n, outcome === "done" ? cost : 0, period, now];
          return [{ method: "spendCredits" as const, given: spent, result: spend, isLost: client.isDead }];
        });
      }
      case "write":
        return [{ method, given, result: (results() as unknown as { outcome: string }).outcome, isLost: false }];
      case "insertKeys": {
        const { inserted = [] } = results() as unknown as { inserted?: readonly number[] };
        const result = (given[0] as readonly NewKey[]).map((_, i) => inserted.includes(i));
        return [{ method, given, result, isLost: false }];
      }
      case "readBalances": {
        const result = await direct.readBalances(...(given as Parameters<Store["readBalances"]>));
        return [{ method, given, result, isLost: false }];
      }
      default:
        return [];
    }
  }
}

/** What the database holds, as a new handle reads it, which has cached nothing: the judge compares without waiting. */
class Snapshot {
  readonly #raw: PostgresClient;
  readonly #keys = new Map<string, KeyRecord | undefined>();
  readonly #foreign = new Map<string, KeyRecord | undefined>();
  readonly #balances = new Map<string, CountedBalance | undefined>();
  readonly probe: Store;

  constructor(raw: PostgresClient, store: Store) {
    this.#raw = raw;
    this.probe = {
      ...store,
      pollChanges: () => undefined,
      findKey: (digest) => this.#keys.get(digest),
      findForeignKey: (migrationId, digest) => this.#foreign.get(`${migrationId} ${digest}`),
      // The balances as they are stored: the judge asks for nothing else.
      readBalances: (queries) =>
        queries.map(({ keyId, identityId = "" }) => this.#balances.get(keyId ?? `identity ${identityId}`)),
    };
  }

  /** Reads all again. */
  async look(): Promise<void> {
    const store = postgresStore(this.#raw, { schema: SCHEMA });
    const ids = await this.#lookAtBalances(store);
    const rows = (await store.readMany("keys", ids)).filter((row) => row !== undefined);
    const digests = rows.flatMap(({ digest }) => digest ?? []);
    const found = await store.findKeys(digests);
    this.#keys.clear();
    digests.forEach((digest, i) => this.#keys.set(digest, found[i]));
    this.#foreign.clear();
    for (const { migrationId, foreignDigest } of rows) {
      if (migrationId === undefined || foreignDigest === undefined) continue;
      const record = await store.findForeignKey(migrationId, foreignDigest);
      this.#foreign.set(`${migrationId} ${foreignDigest}`, record);
    }
  }

  /** Reads the balances again. */
  lookAtBalances(): Promise<unknown> {
    return this.#lookAtBalances(postgresStore(this.#raw, { schema: SCHEMA }));
  }

  async #lookAtBalances(store: Store): Promise<string[]> {
    const { rows } = (await this.#raw.query(`SELECT id FROM ${SCHEMA}.keys ORDER BY id`, [])) as {
      rows: { id: string }[];
    };
    const ids = rows.map(({ id }) => id);
    const balances = await store.readBalances(
      ids.map((keyId) => ({ keyId, period: 0 })),
      -1,
    );
    const { rows: others } = (await this.#raw.query(
      `SELECT id FROM ${SCHEMA}.entities WHERE kind = 'identities' ORDER BY id`,
      [],
    )) as { rows: { id: string }[] };
    const shared = await store.readBalances(
      others.map(({ id }) => ({ identityId: id, period: 0 })),
      -1,
    );
    this.#balances.clear();
    ids.forEach((id, i) => this.#balances.set(id, balances[i]));
    others.forEach(({ id }, i) => this.#balances.set(`identity ${id}`, shared[i]));
    return ids;
  }
}

function isUnknown(error: unknown): boolean {
  return isKeystileError(error) && error.outcomeUnknown === true;
}

function remove<T>(items: T[], item: T): void {
  const at = items.indexOf(item);
  if (at >= 0) items.splice(at, 1);
}
