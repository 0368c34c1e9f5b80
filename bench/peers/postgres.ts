/**
 * How long does a verification take whose credit is in PostgreSQL before the answer, with keystile and with
 * better-auth, over 1,000 keys?
 */
import { noPostgres, startPostgres } from "../../test/servers/postgres.js";
import { CONNECTIONS, inFlight, makeBare, openPool, TAKE, TRIP } from "../connect.js";
import { measure, report, type Row, scaled, type Side } from "../harness.js";
import { endless, sample } from "../keys.js";
import { betterAuthPostgres } from "./better-auth.js";
import { AMPLE_32 } from "./contestant.js";
import { measureGates } from "./gates.js";
import { keystilePostgres } from "./keystile.js";
import { SCARCE_CREDITS, withRush } from "./rush.js";

const QUESTION =
  "How long does a verification take whose credit is in PostgreSQL before the answer, with keystile and with better-auth?";
const KEYS = scaled(1_000, 50);
const IN_FLIGHT = 64;
/** Many calls in each turn, so that 64 of them are in flight for most of it. */
const LONG = { slices: scaled(2, 1), sliceMs: scaled(300, 2) };

async function main(): Promise<Row[]> {
  const server = await startPostgres(["max_connections = 200", "fsync = on"]);
  const pool = openPool(await server.newDatabase());
  await makeBare(pool, KEYS);
  const newDatabase = (): Promise<string> => server.newDatabase();
  const contestants = [...keystilePostgres(newDatabase), betterAuthPostgres(newDatabase)];

  const next = endless(sample(KEYS));
  const take = async (): Promise<boolean> => (await pool.query({ ...TAKE, values: [next()] })).rowCount === 1;
  const trip = async (): Promise<boolean> => (await pool.query(TRIP)).rowCount === 1;
  const bare = (name: string, count: number, work: () => Promise<boolean>): Side => ({
    name,
    run: (operations) => inFlight(count, operations, work),
  });
  const rows = await measure([bare("a bare round trip", 1, trip)]);
  const single = contestants.map((contestant) => ({ contestant, keys: KEYS }));
  rows.push(...(await measureGates(bare("bare UPDATE", 1, take), single, { terms: AMPLE_32 })));
  const label = `, ${IN_FLIGHT} in flight`;
  const together = single.map((entrant) => ({ ...entrant, inFlight: IN_FLIGHT, label }));
  const floor = bare(`bare UPDATE${label} over ${CONNECTIONS} connections`, IN_FLIGHT, take);
  rows.push(...(await measureGates(floor, together, { terms: AMPLE_32, ...LONG })));
  const proven = await withRush(rows, contestants, SCARCE_CREDITS);
  await pool.end();
  await server.close();
  return proven;
}

report({ question: QUESTION, rows: noPostgres === undefined ? await main() : [] });
