/** What does it cost that many keys draw on one account: exact calls, 64 in flight, beside one key and many? */
import type { Store } from "../src/contracts/store.js";
import { sqliteStore } from "../src/stores/sqlite/index.js";
import { createVerifier } from "../src/verify/verifier.js";
import { noPostgres, startPostgres } from "../test/servers/postgres.js";
import { connect, inFlight } from "./connect.js";
import { measure, report, type Row, scaled, type Side } from "./harness.js";
import { BALANCE, endless, keyRow, keyText, sample, WORKSPACE } from "./keys.js";
import { prepare, scratch } from "./stores.js";

const QUESTION =
  "What does it cost that many keys draw on one account: exact calls, 64 in flight, beside one key and many?";
/** Keys of the identity, and as many with a balance each. */
const KEYS = scaled(1_000, 100);
const IN_FLIGHT = 64;
const IDENTITY = "id_bench";

/** Keys of an identity with credits, then keys with a balance each; without limits, which one key would use up. */
async function fill(store: Store): Promise<void> {
  await prepare(store);
  const identity = { id: IDENTITY, version: 0, workspaceId: WORKSPACE, externalId: "bench", ratelimits: [] };
  const row = { ...identity, hasCredits: true, generation: 1 };
  await store.write([{ table: "identities", row, credits: { period: 0, remaining: BALANCE } }]);
  const keys = Array.from({ length: 2 * KEYS }, (_, n) => {
    const key = keyRow(n, n >= KEYS);
    return { ...key, row: { ...key.row, ratelimits: [], ...(n < KEYS && { identityId: IDENTITY }) } };
  });
  if (!(await store.insertKeys(keys)).every(Boolean)) throw new Error("a key of the bench is there already");
}

async function onStore(name: string, store: Store): Promise<Row[]> {
  await fill(store);
  const verifier = createVerifier(store, { usage: false });
  for (let n = 0; n < 2 * KEYS; n++) await verifier.verify({ key: keyText(n), credits: { cost: 0 } });
  const spending =
    (numbers: readonly number[], check?: Side["check"]) =>
    (title: string, more: Partial<Side> = {}): Side => {
      const next = endless(numbers.map(keyText));
      const work = async () => (await verifier.verify({ key: next() })).code === "VALID";
      return {
        name: `${name}: ${title}`,
        run: (count) => inFlight(IN_FLIGHT, count, work),
        ...(check && { check }),
        ...more,
      };
    };
  const ofAccount = async (spent: number): Promise<void> => {
    const [balance] = await store.readBalances([{ identityId: IDENTITY, period: 0 }], 0);
    if (balance?.remaining !== BALANCE - spent) throw new Error(`the account is not short of ${spent} credits`);
  };
  const floor = `${name}: one key`;
  const rows = await measure([
    spending([KEYS])("one key"),
    spending(sample(KEYS), ofAccount)(`${KEYS} keys on one account`, { floor, goal: "≤ 1.2" }),
    spending(sample(KEYS).map((n) => KEYS + n))(`${KEYS} keys with a balance each`, { floor }),
  ]);
  await verifier.close();
  return rows;
}

async function onPostgres(): Promise<Row[]> {
  const server = await startPostgres(["fsync = on"]);
  const node = connect(await server.newDatabase());
  await node.store.setUp();
  const rows = await onStore("PostgreSQL", node.store);
  await node.close();
  await server.close();
  return rows;
}

const file = sqliteStore(scratch("pool.db"));
const rows = await onStore("SQLite", file);
await file.close();
if (noPostgres === undefined) rows.push(...(await onPostgres()));
report({ question: QUESTION, rows });
