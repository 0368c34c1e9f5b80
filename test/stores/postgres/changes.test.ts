/** What is particular to how changes arrive at the nodes of a PostgreSQL. */
import { expect, it, vi } from "vitest";
import type { Change } from "../../../src/contracts/store.js";
import { api, insert, keyRow } from "../../../src/testing/store/rows.js";
import { Changes } from "../../../src/stores/postgres/changes.js";
import type { Session } from "../../../src/stores/postgres/client.js";
import { type PostgresClient, postgresStore, type PostgresStore } from "../../../src/stores/postgres/index.js";
import { readOptions } from "../../../src/stores/postgres/options.js";
import { SCHEMA_VERSION } from "../../../src/stores/postgres/schema.js";
import { pglite } from "./support.js";

const { server, open, newSchema } = pglite();

it("tables from a dump of a server that had counted further reset nobody, and tell of nothing again and again", async () => {
  const [store] = await open(1);
  await store!.write([{ table: "apis", row: api() }]);
  await insert(store!, keyRow(1));
  const { rows } = await server.query<{ schema: string }>(
    "SELECT nspname AS schema FROM pg_namespace WHERE nspname LIKE 'test_%'",
  );
  for (const { schema } of rows)
    await server.exec(`UPDATE ${schema}.meta SET pruned = '4000000000';
      INSERT INTO ${schema}.changes (xid, what) VALUES ('4000000001', 'all');`);
  const notified: Change[] = [];
  store!.subscribe((change) => notified.push(change));
  await store!.pollChanges("anew");
  await store!.pollChanges("anew");
  expect(notified).toEqual([]);
  expect((await store!.status()).resets).toBe(0);
  await store!.close();
});

it("a node that was away is told so, also in tables from such a dump, of which what is old is removed", async () => {
  const schema = newSchema();
  const stores = [0, 1].map(() => postgresStore(server, { schema }));
  const [here, away] = stores as [PostgresStore, PostgresStore];
  await here.setUp();
  await away.pollChanges("anew");
  await here.write([{ table: "apis", row: api() }]);
  await insert(here, keyRow(1));
  const notified: Change[] = [];
  away.subscribe((change) => notified.push(change));
  await server.exec(`UPDATE ${schema}.meta SET pruned = '4000000000';
    INSERT INTO ${schema}.changes (xid, what) VALUES ('4000000001', 'all');
    UPDATE ${schema}.changes SET at = now() - interval '2 hours';
    SELECT ${schema}.prune_v1('1 hour')`);
  expect((await server.query(`SELECT * FROM ${schema}.changes`)).rows).toEqual([]);
  await away.pollChanges("anew");
  expect(notified).toEqual(["all"]);
  expect((await away.status()).resets).toBe(1);
  for (const store of stores) await store.close();
});

it("what a later version may tell of is anything", async () => {
  const schema = newSchema();
  const store = postgresStore(server, { schema });
  await store.setUp();
  await store.pollChanges("anew");
  const notified: Change[] = [];
  store.subscribe((change) => notified.push(change));
  await server.exec(
    `INSERT INTO ${schema}.changes (what) VALUES ('#later x'), ('!later'), ('created'), ('=d'), ('#roles a b')`,
  );
  await store.pollChanges("anew");
  expect(notified).toEqual(["all", "all", "created", { digest: "d" }, { table: "roles", id: "a b" }]);
  await store.close();
});

it("a doorbell that rings while a poll is in flight is not lost", async () => {
  const schema = newSchema();
  const here = postgresStore(server, { schema });
  await here.setUp();
  await here.write([{ table: "apis", row: api() }]);
  let hear: (payload: string) => void = () => undefined;
  let held: Promise<void> | undefined;
  const client: PostgresClient = {
    async query(text, values) {
      const result = await server.query(text, values);
      if (text.includes("pg_notify")) hear(values[1]!);
      else await held;
      return result;
    },
    listen: (_channel, onNotify) => {
      hear = onNotify;
      return () => undefined;
    },
  };
  const other = postgresStore(client, { schema, bound: 3_600_000 });
  await other.pollChanges("anew");
  await vi.waitFor(async () => expect((await other.status()).isListening).toBe(true), 20_000);
  const notified: Change[] = [];
  other.subscribe((change) => notified.push(change));
  let answer: () => void = () => undefined;
  held = new Promise((resolve) => (answer = resolve));
  const polling = other.pollChanges("anew");
  // It is answered by what was before the write.
  await server.query("SELECT 1");
  await insert(here, keyRow(1));
  hear("");
  held = undefined;
  answer();
  await polling;
  await vi.waitFor(() => expect(notified).toEqual([{ digest: "digest-1" }]), 10_000);
  for (const store of [here, other]) await store.close();
});

it("writes that tell of nothing do not make a node forget which changes were its own", async () => {
  const row = {
    replica: "false",
    started: "s",
    version: `${SCHEMA_VERSION}`,
    store_id: "i",
    standbys: "",
    pruned: "false",
  };
  let polls = 0;
  const session: Session = {
    run: async () => [{ ...row, snapshot: `1:${++polls}:`, changes: '[["7","#roles r"]]' }],
    listen: async () => undefined,
    close: () => undefined,
  };
  const changes = new Changes(session, readOptions({}), "s");
  await changes.open();
  const notified: Change[] = [];
  changes.subscribe((change) => notified.push(change));
  changes.made(["#roles r"], "7", false);
  const MOST = 10_000;
  for (let xid = 0; xid < MOST; xid++) changes.made([], `${100 + xid}`, false);
  await changes.poll("anew");
  expect(notified).toEqual([{ table: "roles", id: "r" }]);
  await changes.close();
});

it.each([true, false])(
  "close ends listening, also while it begins (%j), whatever ending it comes to",
  async (isEarly) => {
    let ended = 0;
    const client: PostgresClient = {
      query: (text, values) => server.query(text, values as string[]),
      async listen() {
        await new Promise((resolve) => setTimeout(resolve, 20));
        return {
          unlisten() {
            ended++;
            return Promise.reject(new Error("planted: the connection has ended"));
          },
        };
      },
    };
    const store = postgresStore(client, { schema: newSchema() });
    await store.setUp();
    await store.pollChanges("anew");
    if (!isEarly) await new Promise((resolve) => setTimeout(resolve, 50));
    await store.close();
    expect(ended).toBe(1);
  },
);
