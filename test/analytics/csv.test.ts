/** Statements as CSV: every line of them, with a balance that ends where the statement does. */
import { expect, it } from "vitest";
import { statementCsv, toField } from "../../src/analytics/csv.js";
import { createAnalytics, createKeyring, createVerifier } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";

const NOV = Date.UTC(2026, 10, 3, 12);
const DAY = 86_400_000;

it("statementCsv: the balance runs from opening to closing over refills, grants, adjustments and spending", async () => {
  const store = sqliteStore(":memory:");
  let now = NOV - 10 * DAY;
  const clock = () => now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "api" });
  const refill = { interval: "monthly", amount: 100, refillDay: 5 } as const;
  await keyring.createIdentity({ externalId: "ann", credits: { remaining: 40, refill } });
  const { key } = await keyring.createKey({ apiId, externalId: "ann" });
  const spend = async (cost: number) => {
    const verifier = createVerifier(store, { clock, analytics: true });
    expect((await verifier.verify({ key, credits: { cost } })).code).toBe("VALID");
    await verifier.close();
  };
  await spend(10);
  now = NOV;
  await spend(5);
  await keyring.grantCredits({ identity: "ann", grantId: "=1+1", amount: 50, reason: "secret" });
  await keyring.updateIdentityCredits({ identity: "ann", operation: "decrement", value: 3 });
  now += 4 * DAY;
  await spend(7);
  const statement = await createAnalytics(store, { clock }).statement({ externalId: "ann" }, "2026-11");
  const rows = statementCsv(statement, now)
    .trimEnd()
    .split("\r\n")
    .map((row) => row.split(","));
  expect(rows).toEqual([
    ["day", "what", "credits", "balance"],
    ["2026-11-01", "opening", "", "30"],
    ["2026-11-03", "grant", "50", "80"],
    ["2026-11-03", "adjustment", "-3", "77"],
    ["2026-11-03", "spent", "-5", "72"],
    ["2026-11-07", "refill", "100", "172"],
    ["2026-11-07", "spent", "-7", "165"],
    ["2026-11-07", "closing", "", "165"],
  ]);
  const lastOfMonth = statementCsv(statement, now + 90 * DAY)
    .trimEnd()
    .split("\r\n")
    .at(-1);
  expect(lastOfMonth).toBe("2026-11-30,closing,,165");
  await store.close();
});

it("toField: what a spreadsheet would run is text, and quotes and line breaks stay in their field", () => {
  expect(["=1", "+1", "-1", "@a", "\ta", 'a"b', "a,b", "a\nb", -1, undefined].map(toField)).toEqual([
    "'=1",
    "'+1",
    "'-1",
    "'@a",
    "'\ta",
    '"a""b"',
    '"a,b"',
    '"a\nb"',
    "-1",
    "",
  ]);
});
