/**
 * How long does it take to count a call where many hosts see it, in Redis and in PostgreSQL, with keystile and with
 * rate-limiter-flexible?
 */
import { Redis } from "ioredis";
import { noPostgres, startPostgres } from "../../test/servers/postgres.js";
import { noRedis, startRedis } from "../../test/servers/redis.js";
import { inFlight, makeBare, openPool, TAKE } from "../connect.js";
import { report, type Row, type Rounds, scaled, type Side } from "../harness.js";
import { endless, sample } from "../keys.js";
import type { Contestant, Terms } from "./contestant.js";
import { measureGates } from "./gates.js";
import { SCARCE_LIMIT, withRush } from "./rush.js";
import { flexiblePostgres, flexibleRedis, keystileCredits, keystileRedis } from "./shared-limiters.js";

const KEYS = scaled(1_000, 50);
const IN_FLIGHT = 64;
/** Never reached, and so slow that nothing refills meanwhile: what is left then says what was taken. */
const TERMS: Terms = { credits: 1_000_000_000, limit: 1_000_000_000, duration: 9_000_000_000_000_000 };
/** Many calls in each turn, so that 64 of them are in flight for most of it. */
const LONG: Rounds = { slices: scaled(2, 1), sliceMs: scaled(150, 2) };

/** One bare call, of a key. */
type Bare = (n: number) => Promise<boolean>;

/** @param count calls in flight @param label what distinguishes these rows from others of the same contestants */
async function compare(
  floor: string,
  bare: Bare,
  contestants: readonly Contestant[],
  { count, keys, label }: { readonly count: number; readonly keys: number; readonly label: string },
): Promise<Row[]> {
  const next = endless(sample(keys));
  const side: Side = { name: floor + label, run: (operations) => inFlight(count, operations, () => bare(next())) };
  const entrants = contestants.map((contestant) => ({ contestant, keys, inFlight: count, label }));
  return measureGates(side, entrants, { terms: TERMS, ...(count > 1 && LONG) });
}

const alone = { count: 1, keys: KEYS, label: "" };
const together = { count: IN_FLIGHT, keys: KEYS, label: `, ${IN_FLIGHT} in flight` };
const oneKey = { count: IN_FLIGHT, keys: 1, label: `, ${IN_FLIGHT} in flight, one key` };

async function inRedis(): Promise<Row[]> {
  const server = await startRedis();
  const redis = new Redis(server.url).on("error", () => undefined);
  const contestants = [keystileRedis(server.url), flexibleRedis(server.url)];
  const bare: Bare = async (n) => (await redis.incr(`bare${n}`)) > 0;
  const rows = await withRush(await compare("bare INCR", bare, contestants, alone), contestants, SCARCE_LIMIT);
  rows.push(...(await compare("bare INCR", bare, contestants, together)));
  redis.disconnect();
  await server.close();
  return rows;
}

async function inPostgres(): Promise<Row[]> {
  const server = await startPostgres(["fsync = on"]);
  const url = await server.newDatabase();
  const pool = openPool(url);
  await makeBare(pool, KEYS);
  const contestants = [keystileCredits(() => server.newDatabase()), flexiblePostgres(url)];
  const floor = "bare UPDATE";
  const bare: Bare = async (n) => (await pool.query({ ...TAKE, values: [n] })).rowCount === 1;
  const rows = await withRush(await compare(floor, bare, contestants, alone), contestants, SCARCE_LIMIT);
  rows.push(...(await compare(floor, bare, contestants, together)));
  rows.push(...(await compare(floor, bare, contestants, oneKey)));
  await pool.end();
  await server.close();
  return rows;
}

report({
  question:
    "How long does it take to count a call where many hosts see it, in Redis and in PostgreSQL, with keystile and with rate-limiter-flexible?",
  rows: [...(noRedis === undefined ? await inRedis() : []), ...(noPostgres === undefined ? await inPostgres() : [])],
});
