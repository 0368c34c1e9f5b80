/** What tables do that come from another server. */
import { expect, it } from "vitest";
import type { Change } from "../../../src/contracts/store.js";
import { api, insert, keyRow } from "../../../src/testing/store/rows.js";
import { pglite } from "./support.js";

const { server, open } = pglite();

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
  await store!.pollChanges(NaN);
  await store!.pollChanges(NaN);
  expect(notified).toEqual([]);
  expect((await store!.status()).resets).toBe(0);
  await store!.close();
});
