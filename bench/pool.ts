/** What does it cost that many keys draw on one account, or on several: exact calls, 64 in flight and alone? */
import type { Store } from "../src/contracts/store.js";
import { memoryStore } from "../src/stores/memory.js";
import { sqliteStore } from "../src/stores/sqlite/index.js";
import { createVerifier } from "../src/verify/verifier.js";
import { noPostgres, startPostgres } from "../test/servers/postgres.js";
import { connect, inFlight } from "./connect.js";
import { measure, report, type Row, scaled, type Side } from "./harness.js";
import { BALANCE, endless, keyRow, keyText, sample, WORKSPACE } from "./keys.js";
import { prepare, scratch } from "./stores.js";

const QUESTION =
  "What does it cost that many keys draw on one account, or on several: exact calls, 64 in flight and alone?";
/** Keys of each kind: of an identity, with a balance each, with both, and of an identity with a grant. */
const KEYS = scaled(1_000, 100);
const IN_FLIGHT = 64;
const [IDENTITY, CAPPING, GRANTED] = ["id_bench", "id_capping", "id_granted"] as const;
const OWNERS = [IDENTITY, undefined, CAPPING, GRANTED] as const;

/** Without limits, which one key would use up. */
async function fill(store: Store): Promise<void> {
  await prepare(store);
  const owned = { version: 0, workspaceId: WORKSPACE };
  for (const id of [IDENTITY, CAPPING, GRANTED]) {
    const identity = {
      ...owned,
      id,
      externalId: id,
      ratelimits: [],
      ...(id === GRANTED && { hasGrants: true as const }),
    };
    const row = { ...identity, hasCredits: true, generation: 1 };
    await store.write([{ table: "identities", row, credits: { period: 0, remaining: BALANCE } }]);
  }
  const grant = { ...owned, id: "grant_bench", identityId: GRANTED, grantId: "bench", amount: BALANCE, priority: 1 };
  const row = { ...grant, createdAt: 0, hasCredits: true, generation: 1 };
  await store.write([{ table: "grants", row, credits: { period: 0, remaining: BALANCE } }]);
  const keys = Array.from({ length: OWNERS.length * KEYS }, (_, n) => {
    const owner = OWNERS[Math.floor(n / KEYS)];
    const key = keyRow(n, owner === undefined || owner === CAPPING);
    return { ...key, row: { ...key.row, ratelimits: [], ...(owner !== undefined && { identityId: owner }) } };
  });
  if (!(await store.insertKeys(keys)).every(Boolean)) throw new Error("a key of the bench is there already");
}

async function onStore(name: string, store: Store): Promise<Row[]> {
  await fill(store);
  const verifier = createVerifier(store, { usage: false });
  for (let n = 0; n < OWNERS.length * KEYS; n++) await verifier.verify({ key: keyText(n), credits: { cost: 0 } });
  const spending =
    (numbers: readonly number[], check?: Side["check"], together = IN_FLIGHT) =>
    (title: string, more: Partial<Side> = {}): Side => {
      const next = endless(numbers.map(keyText));
      const work = async () => (await verifier.verify({ key: next() })).code === "VALID";
      return {
        name: `${name}: ${title}`,
        run: (count) => inFlight(together, count, work),
        ...(check && { check }),
        ...more,
      };
    };
  let taken = 0;
  const ofAccount = async (spent: number): Promise<void> => {
    taken += spent;
    const [balance] = await store.readBalances([{ identityId: IDENTITY, period: 0 }], 0);
    if (balance?.remaining !== BALANCE - taken) throw new Error(`the account is not short of ${taken} credits`);
  };
  const floor = `${name}: one key`;
  const from = (kind: number) => sample(KEYS).map((n) => kind * KEYS + n);
  const [shared, alone] = [`${KEYS} keys on one account`, `${KEYS} keys on one account, alone`];
  const several = (title: string, kind: number): Side[] => [
    spending(from(kind))(title, { floor: `${name}: ${shared}`, goal: "≤ 1.5" }),
    spending(from(kind), undefined, 1)(`${title}, alone`, { floor: `${name}: ${alone}`, goal: "≤ 1.5" }),
  ];
  const rows = await measure([
    spending([KEYS])("one key"),
    spending(sample(KEYS), (spent) => void (taken += spent))(shared, { floor, goal: "≤ 1.2" }),
    spending(from(1))(`${KEYS} keys with a balance each`, { floor }),
    spending(from(0), ofAccount, 1)(alone),
    ...several("a cap inside the owner's plan", 2),
    ...several("a grant in use", 3),
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

const rows = await onStore("memory", memoryStore());
for (const durability of ["power", "process"] as const) {
  const file = sqliteStore(scratch(`pool-${durability}.db`), { durability });
  rows.push(...(await onStore(`SQLite, ${durability}-durable`, file)));
  await file.close();
}
if (noPostgres === undefined) rows.push(...(await onPostgres()));
report({ question: QUESTION, rows });
