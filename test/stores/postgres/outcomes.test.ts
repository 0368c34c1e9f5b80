/** What counting leaves in the tables of PostgreSQL, beyond what a store shows of it. */
import { expect, it } from "vitest";
import { OUTCOMES } from "../../../src/contracts/outcomes.js";
import { balance, insert, keyRow, refOf, WS } from "../../../src/testing/store/rows.js";
import { withApi } from "../sqlite/support.js";
import { pglite } from "./support.js";

const { open, server, schemaOf } = pglite();
const DAY = 86_400_000;
const NOON = 19_676 * DAY;

it("pruneOutcomes: the totals of an account that is nobody's stay until its last subject is removed, in slices of one", async () => {
  const store = await withApi((await open(1))[0]!);
  await insert(store, keyRow(1, { hasCredits: true }), balance(100));
  const account = await refOf(store, "digest-1");
  const cells = ["a", "b", "c"].map((externalId) => ({
    ...{ minute: NOON, workspaceId: WS, apiId: "api_1", keyId: keyRow(1).id, account, externalId, tags: [] },
    ...{ counts: OUTCOMES.map(() => 1), spent: 0 },
  }));
  await store.countOutcomes({ source: "one", seq: 1, at: NOON, maxTagSets: 100, cells });
  const entry = { time: NOON, workspaceId: WS, actorKind: "program", operation: "deleteKey", ids: [], fields: [] };
  await store.write([{ table: "keys", remove: keyRow(1).id, version: 1 }], [{ ...entry, count: 1 }]);
  for (const level of ["hour", "day"] as const)
    for (let slices = 0; slices < 100; slices++)
      if ((await store.pruneOutcomes(level, NOON + 900 * DAY, 1)) === 0) break;
  const left = async (table: string) =>
    (await server.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${schemaOf(store)}.${table}`)).rows[0]!.n;
  expect([await left("subjects"), await left("credit_days"), await left("outcomes_day")]).toEqual([0, 0, 0]);
  await store.close();
});
