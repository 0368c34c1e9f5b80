/**
 * The job put together by hand from prefixed-api-key, rate-limiter-flexible and a counter of one's own, as carefully as
 * it can be.
 */
import Database from "better-sqlite3";
import { checkAPIKey, extractShortToken, hashLongToken } from "prefixed-api-key";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { scratch } from "../stores.js";
import { type Contestant, type Gate, grantsOf, lettersOf, type Terms } from "./contestant.js";

/** Credits by key. */
interface Counter {
  set(id: string, credits: number): void;
  /** Takes one, in one step. */
  take(id: string): boolean;
  read(id: string): number | undefined;
  close(): void;
}

function memoryCounter(): Counter {
  const balances = new Map<string, { credits: number }>();
  return {
    set: (id, credits) => void balances.set(id, { credits }),
    take(id) {
      const balance = balances.get(id);
      if (balance === undefined || balance.credits < 1) return false;
      balance.credits--;
      return true;
    },
    read: (id) => balances.get(id)?.credits,
    close: () => undefined,
  };
}

/** @param synchronous FULL: a credit taken survives a power cut; NORMAL: the end of the process */
function sqliteCounter(synchronous: "FULL" | "NORMAL"): Counter {
  const database = new Database(scratch(`peers-by-hand-${synchronous}-${++files}.db`));
  database.pragma("journal_mode = WAL");
  database.pragma(`synchronous = ${synchronous}`);
  database.exec(
    "CREATE TABLE balances (id TEXT PRIMARY KEY, credits INTEGER NOT NULL CHECK (credits >= 0)) STRICT, WITHOUT ROWID",
  );
  const insert = database.prepare<[string, number]>("INSERT INTO balances (id, credits) VALUES (?, ?)");
  const take = database.prepare<[string]>("UPDATE balances SET credits = credits - 1 WHERE id = ? AND credits >= 1");
  const read = database.prepare<[string], { credits: number }>("SELECT credits FROM balances WHERE id = ?");
  return {
    set: (id, credits) => void insert.run(id, credits),
    take: (id) => take.run(id).changes === 1,
    read: (id) => read.get(id)?.credits,
    close: () => void database.close(),
  };
}
let files = 0;

interface Entry {
  readonly hash: string;
  readonly permissions: ReadonlySet<string>;
}

type Code = "VALID" | "NOT_FOUND" | "INSUFFICIENT_PERMISSIONS" | "RATE_LIMITED" | "USAGE_EXCEEDED";

async function open(counter: Counter, keys: number, { credits, limit, duration }: Terms): Promise<Gate<Code>> {
  const limiter = new RateLimiterMemory({ points: limit, duration: duration / 1_000 });
  const entries = new Map<string, Entry>();
  const tokens: string[] = [];
  for (let n = 0; n <= keys + 1; n++) {
    const [id, secret] = [lettersOf(2 * n, 8), lettersOf(2 * n + 1, 24)];
    tokens.push(`peers_${id}_${secret}`);
    if (n > keys) continue;
    entries.set(id, { hash: hashLongToken(secret), permissions: new Set(grantsOf(n, keys)) });
    counter.set(id, credits);
  }
  const verify = async (token: string): Promise<Code> => {
    const id = extractShortToken(token);
    const entry = entries.get(id);
    if (entry === undefined || !checkAPIKey(token, entry.hash)) return "NOT_FOUND";
    const { permissions } = entry;
    const may =
      permissions.has("documents.read") && (permissions.has("billing.view") || permissions.has("reports.export"));
    if (!may) return "INSUFFICIENT_PERMISSIONS";
    try {
      await limiter.consume(id);
    } catch {
      return "RATE_LIMITED";
    }
    return counter.take(id) ? "VALID" : "USAGE_EXCEEDED";
  };
  return {
    verify: (n) => verify(tokens[n]!),
    passes: (code) => code === "VALID",
    balance: (n) => counter.read(extractShortToken(tokens[n]!)),
    close: () => counter.close(),
  };
}

function byHand(where: string, credits: string, makeCounter: () => Counter): Contestant<Code> {
  return {
    name: `by hand, counter in ${where}`,
    checks: {
      permissions: "this one query, as code",
      limit: "fixed windows, in memory, under 24.8 days",
      credits,
      revocation: "at once, in this process",
    },
    open: async (keys, terms) => open(makeCounter(), keys, terms),
  };
}

/** The counter in a Map. */
export const byHandMemory = byHand("memory", "exact, in memory", memoryCounter);
/** The counter in a file that a kill leaves whole. */
export const byHandProcess = byHand("SQLite, process-durable", "exact; survives a kill", () => sqliteCounter("NORMAL"));
/** The counter in a file that a power cut leaves whole. */
export const byHandPower = byHand("SQLite, power-durable", "exact; survives a power cut", () => sqliteCounter("FULL"));
