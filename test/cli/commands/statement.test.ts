/** `keystile statement`, on a database file. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { createKeyring, createVerifier } from "../../../src/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { folder, run } from "../support.js";

const db = join(folder(), "keys.db");
const now = () => Date.UTC(2026, 10, 28, 12);
const statement = (...given: string[]) => run(["statement", "--db", db, ...given], { now });

async function readOwner(identity: string) {
  const store = sqliteStore(db);
  const owner = await createKeyring(store).getIdentity({ identity });
  await store.close();
  return owner;
}

it("shows a month of an owner, line by line; as CSV and whole; and refuses what is no month and nobody", async () => {
  const store = sqliteStore(db);
  const keyring = createKeyring(store, { actor: "ada", clock: now });
  const count = async (key: string) => {
    const verifier = createVerifier(store, { clock: now, analytics: true });
    await verifier.verify({ key, credits: { cost: 3 } });
    await verifier.close();
  };
  await count("nobody");
  const { apiId } = await keyring.createApi({ name: "api" });
  await keyring.createIdentity({ externalId: "acme", credits: { remaining: 1_000 } });
  const { key, keyId } = await keyring.createKey({ apiId, externalId: "acme" });
  await keyring.grantCredits({ identity: "acme", grantId: "order_1", amount: 50, reason: "bonus" });
  await count(key);
  await store.close();

  const month = "2026-11";
  const { stdout, stderr, code } = await statement("--external-id", "acme");
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(new RegExp(`^${month}\nopening +0\nrefills +0\ngranted +50\nadjustments +1,000\nspent +-3\n`));
  expect(stdout).toMatch(/closing +1,047\n/);
  expect(stdout).toMatch(/^\S+ {2}grant +50 {2}order_1, bonus/m);
  expect((await statement("--key-id", keyId, "--month", month)).stdout).toContain("closing");
  expect((await statement("--external-id", "acme", "--csv")).stdout).toMatch(/,closing,,1047\r\n$/);
  expect(JSON.parse((await statement("--external-id", "acme", "--output", "json")).stdout)).toMatchObject({
    ...{ month, spent: 3, closing: 1_047, unattributed: 0 },
  });
  const uncounted = ["--external-id", "acme", "--month", "2001-01"];
  expect((await statement(...uncounted)).stdout).toMatch(/^2001-01\nno balance was counted/);
  expect((await statement(...uncounted, "--csv")).stdout).toBe("day,what,credits,balance\r\n");
  const { id } = await readOwner("acme");
  for (const nobody of [
    ["--external-id", "nobodyhere"],
    ["--key-id", "key_nope12345"],
    ["--external-id", id],
  ])
    for (const more of [[], ["--csv"], ["--output", "json"]])
      expect(await statement(...nobody, ...more)).toMatchObject({
        code: 1,
        stdout: "",
        stderr: expect.stringContaining("was not found") as string,
      });
  for (const wrong of [[], ["--external-id", "acme", "--key-id", keyId]])
    expect(await statement(...wrong)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("give one of") as string,
    });
  const noMonth = await statement("--external-id", "acme", "--month", "November");
  expect([noMonth.code === 0, noMonth.stderr.includes("such as 2026-11")]).toEqual([false, true]);
});
