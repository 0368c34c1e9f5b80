import { describe, expect, it } from "vitest";
import { createAnalytics, createKeyring, createVerifier, memoryStore, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import type { AnalyticsQuery } from "../../src/analytics/query.js";

const DAY = 86_400_000;
const NOON = Date.UTC(2026, 10, 10, 12);
const MONTH = { from: Date.UTC(2026, 10), to: Date.UTC(2026, 11) };

async function world(store: Store) {
  let now = NOON;
  const clock = () => now;
  const keyring = createKeyring(store, { clock });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const credits = { remaining: 100, refill: { interval: "daily", amount: 10 } } as const;
  const paying = await keyring.createKey({ apiId, externalId: "=customer", credits });
  const free = await keyring.createKey({ apiId });
  const at = async (time: number, work: (verify: ReturnType<typeof createVerifier>["verify"]) => Promise<unknown>) => {
    now = time;
    const verifier = createVerifier(store, { clock, analytics: { keep: { hour: 60 } } });
    await work(verifier.verify);
    await verifier.close();
  };
  await at(NOON, async (verify) => {
    for (const cost of [30, 5, 500]) await verify({ key: paying.key, credits: { cost }, tags: ["plan=pro", "eu"] });
    await verify({ key: free.key, tags: ["plan=free"] });
    await verify({ key: "unknown" });
  });
  await keyring.updateCredits({ keyId: paying.keyId, operation: "increment", value: 7 });
  await at(NOON + 2 * DAY, (verify) => verify({ key: paying.key, credits: { cost: 20 } }));
  await at(Date.UTC(2026, 11, 3), (verify) => verify({ key: paying.key, credits: { cost: 1 } }));
  return { store, keyring, apiId, paying, free, analytics: createAnalytics(store, { clock }) };
}

const stores = { memory: () => memoryStore(), sqlite: () => sqliteStore(":memory:") };

describe.each(Object.entries(stores))("createAnalytics on %s", (_, open) => {
  it("counts by what is asked for, in order, page by page", async () => {
    const { analytics, paying, free, apiId, store } = await world(open());
    const rows = async (query: Partial<AnalyticsQuery>) => (await analytics.query({ ...MONTH, ...query })).rows;
    expect(await rows({ by: ["outcome"] })).toEqual([
      { outcome: "NOT_FOUND", count: 1, spent: 0 },
      { outcome: "USAGE_EXCEEDED", count: 1, spent: 0 },
      { outcome: "VALID", count: 4, spent: 55 },
    ]);
    expect(await rows({ by: ["day"] })).toEqual([
      { time: NOON - DAY / 2, count: 5, spent: 35 },
      { time: NOON + 1.5 * DAY, count: 1, spent: 20 },
    ]);
    expect(await rows({ by: ["month", "apiId"], to: MONTH.to + 9 * DAY, where: { apiId: [apiId] } })).toEqual([
      { time: MONTH.from, apiId, count: 5, spent: 55 },
      { time: MONTH.to, apiId, count: 1, spent: 1 },
    ]);
    expect(await rows({ by: ["keyId", "externalId"], order: "count" })).toEqual([
      { keyId: paying.keyId, externalId: "=customer", count: 4, spent: 55 },
      { keyId: "", externalId: "", count: 1, spent: 0 },
      { keyId: free.keyId, externalId: "", count: 1, spent: 0 },
    ]);
    expect(await rows({ by: ["tag"] })).toEqual([
      { tag: "eu", count: 3, spent: 35 },
      { tag: "plan=free", count: 1, spent: 0 },
      { tag: "plan=pro", count: 3, spent: 35 },
    ]);
    expect(await rows({ by: ["tag:plan"], where: { outcome: ["VALID"] } })).toEqual([
      { count: 1, spent: 20 },
      { tags: { plan: "free" }, count: 1, spent: 0 },
      { tags: { plan: "pro" }, count: 2, spent: 35 },
    ]);
    expect(await rows({ where: { tag: ["eu"], keyId: [paying.keyId] } })).toEqual([{ count: 3, spent: 35 }]);
    expect(await rows({ by: ["hour"], where: { externalId: ["=customer"] } })).toHaveLength(2);
    const first = await analytics.query({ ...MONTH, by: ["outcome"], limit: 2 });
    expect([first.rows.length, first.cursor]).toEqual([2, "2"]);
    const last = await analytics.query({ ...MONTH, by: ["outcome"], limit: 2, cursor: first.cursor });
    expect([last.rows, last.cursor]).toEqual([[{ outcome: "VALID", count: 4, spent: 55 }], undefined]);
    expect(last.until).toBe(MONTH.to);
    await store.close();
  });

  it("a statement adds up, month after month, and the days to what was spent", async () => {
    const { analytics, paying, free, store } = await world(open());
    const november = await analytics.statement({ externalId: "=customer" }, "2026-11");
    expect(november.changes.map(({ operation, fields }) => [operation, ...fields])).toEqual([
      ["createKey"],
      ["createKey"],
      ["updateCredits", "credits"],
    ]);
    const sums = {
      ...{ opening: 0, refills: 20, granted: 0, adjustments: 107, spent: 55 },
      ...{ forfeited: 0, expired: 0, closing: 72 },
    };
    const [account] = november.accounts;
    expect(november).toEqual({
      changes: november.changes,
      ...{ month: "2026-11", ...sums, unattributed: 0, unexplained: 0, refused: { USAGE_EXCEEDED: 1 } },
      days: [
        { day: NOON - DAY / 2, spent: 35 },
        { day: NOON + 1.5 * DAY, spent: 20 },
      ],
      accounts: [{ account: account?.account, keyId: paying.keyId, ...sums }],
      lines: november.lines,
    });
    expect(november.lines.map(({ kind, credits, operation }) => [kind, credits, operation])).toEqual([
      ["adjustment", 100, "createKey"],
      ["adjustment", 7, "updateCredits"],
      ["refill", 20, undefined],
    ]);
    const december = await analytics.statement({ keyId: paying.keyId }, "2026-12");
    expect(december).toMatchObject({ opening: 72, refills: 210, spent: 1, closing: 281, refused: {} });
    for (const { opening, refills, adjustments, spent, forfeited, closing } of [november, december])
      expect(opening + refills + adjustments - spent - forfeited).toBe(closing);
    expect(await analytics.statement({ keyId: free.keyId }, "2026-11")).toMatchObject({
      opening: 0,
      spent: 0,
      days: [],
    });
    const { perDay, emptyAt } = await analytics.forecast({ keyId: paying.keyId });
    expect(perDay).toBeGreaterThan(0);
    expect(emptyAt).toBeGreaterThan(Date.UTC(2026, 11, 3));
    expect(await analytics.forecast({ keyId: free.keyId })).toEqual({ perDay: 0 });
    await store.close();
  });

  it("says up to when everything is counted, also by processes that write once a minute", async () => {
    const now = NOON + DAY;
    const analytics = createAnalytics(open(), { clock: () => now });
    const { until } = await analytics.query({ by: ["outcome"], from: NOON, to: now });
    expect(now - until).toBe(2 * 60_000);
  });

  it("exports CSV that no spreadsheet runs, and a JSON object a line", async () => {
    const { analytics, paying, store } = await world(open());
    const query = { ...MONTH, by: ["externalId", "outcome"], where: { keyId: [paying.keyId] } } as const;
    const textOf = async (format: "csv" | "ndjson") => {
      let text = "";
      for await (const line of analytics.export(query, format)) text += line;
      return text;
    };
    expect(await textOf("csv")).toBe(
      "externalId,outcome,count,spent\r\n'=customer,USAGE_EXCEEDED,1,0\r\n'=customer,VALID,3,55\r\n",
    );
    expect(await textOf("ndjson")).toBe(
      '{"externalId":"=customer","outcome":"USAGE_EXCEEDED","count":1,"spent":0}\n' +
        '{"externalId":"=customer","outcome":"VALID","count":3,"spent":55}\n',
    );
    await store.close();
  });

  it("removes counts, bounds what it reads, and shows nothing of another workspace", async () => {
    const { analytics, store } = await world(open());
    const query = { ...MONTH, by: ["keyId"] } as const;
    const [small, other] = [createAnalytics(store, { maxRows: 2 }), createAnalytics(store, { workspaceId: "other" })];
    await expect(small.query(query)).rejects.toMatchObject({ code: "ANALYTICS_TOO_LARGE", status: 422 });
    expect((await other.query(query)).rows).toEqual([]);
    expect(await analytics.prune("day", NOON + DAY)).toBeGreaterThan(0);
    expect((await analytics.query(query)).rows).toHaveLength(1);
    await store.close();
  });
});

describe("queries", () => {
  const analytics = createAnalytics(memoryStore());
  it.each([
    ["query", "SELECT 1"],
    ["query", { ...MONTH, extra: 1 }],
    ["query.by", { ...MONTH, by: ["week"] }],
    ["query.by", { ...MONTH, by: ["hour", "day"] }],
    ["query.by", { ...MONTH, by: ["tag", "tag"] }],
    ["query.by", { ...MONTH, by: ["tag:a", "tag:b", "tag:c", "tag:d", "tag:e"] }],
    ["query.where", { ...MONTH, where: { key: ["a"] } }],
    ["query.where.keyId", { ...MONTH, where: { keyId: Array(101).fill("a") } }],
    ["query.where.outcome", { ...MONTH, where: { outcome: ["valid"] } }],
    ["query.from", { to: 1 }],
    ["query.to", { from: 1, to: 1 }],
    ["query.order", { ...MONTH, order: "size" }],
    ["query.limit", { ...MONTH, limit: 10_001 }],
    ["query.cursor", { ...MONTH, cursor: "-1" }],
  ])("are refused at %s", async (location, query) => {
    await expect(analytics.query(query as AnalyticsQuery)).rejects.toMatchObject({
      code: "BAD_REQUEST",
      errors: [{ location }],
    });
  });

  it("a statement walks a long trail with others' turns in between", async () => {
    const store = memoryStore();
    let slices = 0;
    const readAudit: Store["readAudit"] = () =>
      ++slices < 300 ? { entries: [], next: 300 - slices } : { entries: [] };
    const powers = { ...store.powers, audit: true };
    let turns = 0;
    let counting: NodeJS.Immediate;
    const count = (): void => {
      turns++;
      counting = setImmediate(count);
    };
    count();
    await createAnalytics({ ...store, powers, readAudit }).statement({ keyId: "key" }, "2026-11");
    clearImmediate(counting!);
    expect(slices).toBe(300);
    expect(turns).toBeGreaterThan(290);
  });

  it.each(["2026", "2026-13", 2026])("a statement of the month %s is refused", async (month) => {
    await expect(analytics.statement({ keyId: "key" }, month as string)).rejects.toMatchObject({
      errors: [{ location: "month" }],
    });
  });

  it.each([{}, { keyId: "a", externalId: "b" }, { keyId: 1 }])("a statement of %o is refused", async (of) => {
    await expect(analytics.statement(of as never, "2026-11")).rejects.toMatchObject({ errors: [{ location: "of" }] });
  });
});
