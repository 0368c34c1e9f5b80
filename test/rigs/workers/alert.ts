/**
 * Looks for crossings and delivers them, for ever, by a clock that runs fast. Made to be killed, and to kill itself
 * around deliveries.
 */
import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { createAlerts } from "../../../src/alerts/alerts.js";
import type { Store } from "../../../src/contracts/store.js";
import { trust } from "../../../src/lib/guards/trusted.js";
import { postgresStore } from "../../../src/stores/postgres/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { dice } from "../../model/dice.js";

export interface AlertOrders {
  /** A file, or the address of a PostgreSQL. */
  readonly database: string;
  /** A line for each delivery: the id of the alert, and of its key. */
  readonly deliveries: string;
  readonly below: number;
  /** When the clock began to run fast, Unix time in milliseconds, and how fast. */
  readonly began: number;
  readonly speed: number;
  readonly seed: number;
  /** Whether it kills itself at one in so many deliveries, before or after it. */
  readonly diesAt?: number;
  /** The planted fault: what is raised is raised anew. */
  readonly forgets?: boolean;
}

const orders = JSON.parse(process.argv[2]!) as AlertOrders;
const rolled = dice(orders.seed);

function open(): Store {
  if (!orders.database.startsWith("postgres")) return sqliteStore(orders.database, { busyTimeout: 10_000 });
  const pool = new pg.Pool({ connectionString: orders.database, max: 4 });
  pool.on("error", () => undefined);
  return postgresStore(pool);
}

const store = open();
const changeAlerts: Store["changeAlerts"] = async (changes) => {
  const ends = changes.map(({ body: _, ...change }) => change);
  await store.changeAlerts!(ends.map((change) => ({ ...change, until: change.from - 1 })));
  return store.changeAlerts!(changes);
};
const perhapsDie = (): void => {
  if (orders.diesAt !== undefined && rolled.below(orders.diesAt) === 0) process.kill(process.pid, "SIGKILL");
};
const alerts = createAlerts(orders.forgets === true ? trust({ ...store, changeAlerts }) : store, {
  ...{ creditsBelow: orders.below, interval: 0, timeout: 1_000 },
  clock: () => orders.began + (Date.now() - orders.began) * orders.speed,
  deliver(alert) {
    perhapsDie();
    appendFileSync(orders.deliveries, `${alert.id} ${"keyId" in alert ? alert.keyId : ""}\n`);
    perhapsDie();
  },
});
for (;;) {
  await alerts.run();
  await pause(5);
}
