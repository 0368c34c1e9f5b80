/** `keystile analytics`, on a database file. */
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { createVerifier } from "../../../src/verify/verifier.js";
import { folder, run } from "../support.js";

const db = join(folder(), "keys.db");
/** So that no hour and no day ends meanwhile. */
const now = () => Date.UTC(2026, 10, 28, 12);
const today = "2026-11-28";

describe("analytics", () => {
  beforeAll(async () => {
    const store = sqliteStore(db);
    const keyring = createKeyring(store, { clock: now });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key } = await keyring.createKey({ apiId, externalId: "a|b", credits: { remaining: 5 } });
    const verifier = createVerifier(store, { clock: now, analytics: true });
    for (const cost of [2, 2, 2]) await verifier.verify({ key, credits: { cost } });
    await verifier.close();
    await store.close();
  });
  const analytics = (...argv: string[]) => run(["analytics", "--db", db, ...argv], { now });

  it("draws a chart, writes tables and JSON", async () => {
    const chart = await analytics("--since", "2d");
    expect(chart).toMatchObject({ code: 0, stderr: "the longest bar is 2 calls\n" });
    expect(chart.stdout).toBe(
      `${today}  USAGE_EXCEEDED  ${"█".repeat(20)} 1\n${today}  VALID           ${"█".repeat(40)} 2  4 credits\n`,
    );
    const csv = await analytics("--by", "outcome", "--order", "count", "--output", "csv");
    expect(csv.stdout).toBe("outcome,count,spent\r\nVALID,2,4\r\nUSAGE_EXCEEDED,1,0\r\n");
    const json = await analytics("--by", "externalId", "--output", "json");
    expect(JSON.parse(json.stdout)).toEqual([{ externalId: "a|b", count: 3, spent: 4 }]);
    const ndjson = await analytics("--by", "month", "--limit", "1", "--output", "ndjson");
    expect(JSON.parse(ndjson.stdout)).toMatchObject({ count: 3 });
    const spent = await analytics("--by", "day,outcome", "--order", "spent");
    expect(spent).toMatchObject({
      stdout: `${today}  VALID           ${"█".repeat(40)} 2  4 credits\n${today}  USAGE_EXCEEDED   1\n`,
      stderr: "the longest bar is 4 credits\n",
    });
    for (const columns of [60, 50]) {
      const { stdout } = await run(["analytics", "--db", db], { now, columns });
      expect(Math.max(...stdout.split("\n").map(({ length }) => length))).toBe(columns);
    }
    expect((await run(["analytics", "--help"])).stdout).toContain("(default: 30d)");
    expect((await analytics("--by", "externalId")).stdout).toMatch(/^a\|b {2}█+ 3 {2}4 credits\n$/);
    expect(await analytics("--workspace", "other")).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "nothing was counted\n",
    });
  });

  it("says what is wrong", async () => {
    expect(await analytics("--since", "week")).toMatchObject({ code: 2 });
    const { code, stderr } = await analytics("--by", "week");
    expect(code).toBe(2);
    expect(stderr).toContain("query.by");
  });
});

describe("refusals", () => {
  const keys = join(folder(), "refused.db");
  let keyId: string;
  beforeAll(async () => {
    const store = sqliteStore(keys);
    const keyring = createKeyring(store, { clock: now });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const made = await keyring.createKey({ apiId, externalId: "acme" });
    keyId = made.keyId;
    const verifier = createVerifier(store, { clock: now, analytics: true });
    for (let i = 0; i < 2; i++) await verifier.verify({ key: made.key, permissions: "a.read" });
    await verifier.close();
    await store.close();
  });
  const refusals = (...argv: string[]) => run(["refusals", "--db", keys, ...argv], { now });

  it("shows hours and codes, and of a key what decided", async () => {
    const hour = new RegExp(`^${today.slice(0, 5)}.*:00 {2}INSUFFICIENT_PERMISSIONS {2}2\n`);
    const { stdout } = await refusals("--key-id", keyId);
    expect(stdout).toMatch(hour);
    expect(stdout).toMatch(/The last ones:\n.*INSUFFICIENT_PERMISSIONS {2}cost=1 permissions="a.read"\n/);
    const narrow = await run(["refusals", "--db", keys, "--key-id", keyId], { now, columns: 70 });
    expect(narrow.stdout).toMatch(/INSUFFICIENT_PERMISSIONS {2}cost=1\n {47}permissions="a.read"\n/);
    const owner = await refusals("--external-id", "acme", "--output", "json");
    expect(JSON.parse(owner.stdout)).toMatchObject({ hours: [{ count: 2 }], last: [] });
    expect((await refusals("--external-id", "acme")).stdout).not.toContain("The last");
  });

  it("of what is there and has none says so, and of what is not that it was not found", async () => {
    const store = sqliteStore(keys);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "unused" });
    const unused = await keyring.createKey({ apiId, externalId: "quiet" });
    await keyring.deleteKey({ keyId: unused.keyId });
    await store.close();
    for (const of of [
      ["--api-id", apiId],
      ["--external-id", "quiet"],
      ["--key-id", unused.keyId],
    ])
      expect(await refusals(...of)).toMatchObject({ code: 0, stderr: expect.stringContaining("nothing was refused") });
    for (const of of [
      ["--api-id", "api_none"],
      ["--external-id", "quite"],
      ["--key-id", "key_nope12345"],
      ["--api-id", apiId, "--workspace", "ws_1"],
    ])
      for (const more of [[], ["--output", "json"]])
        expect(await refusals(...of, ...more)).toMatchObject({
          code: 1,
          stdout: "",
          stderr: expect.stringContaining("was not found"),
        });
  });

  it("asks for one of key, owner and API", async () => {
    expect(await refusals()).toMatchObject({ code: 2 });
    expect(await refusals("--key-id", keyId, "--api-id", "api_1")).toMatchObject({ code: 2 });
  });
});
