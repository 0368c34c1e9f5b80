/**
 * The guard around stores that a program brings: every field of every answer broken in turn, every method left hanging.
 */
import fc from "fast-check";
import { describe, expect, expectTypeOf, it } from "vitest";
import { cachedStore } from "../../cache/cached-store.js";
import { mayBeAbsent } from "../../records.js";
import { isKeystileError } from "../../../src/contracts/errors.js";
import type { Change, KeyRow, Rows, Spend, Store } from "../../../src/contracts/store.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { createRatelimits } from "../../../src/keyring/ratelimits/create-ratelimits.js";
import { guardStore } from "../../../src/lib/guards/guard-store.js";
import { type Fields, flag, object } from "../../../src/lib/guards/readers.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { limit, NOON } from "../../spec/support.js";

type Call = (...given: unknown[]) => unknown;
type Methods = Record<string, Call>;

/** Marks every value that an error must not repeat. */
const SECRET = "sk_secret";
const digest = "ZGlnZXN0IG9mIGEga2V5LCBhcyBsb25nIGFzIGl0IGlzIQ==";

/** A call of each method, and what a store answers to it that keeps nothing out. */
async function calls(): Promise<readonly (readonly [name: string, given: readonly unknown[], answer: unknown])[]> {
  const store = memoryStore();
  const keyring = createKeyring(store, { clock: () => NOON });
  const { apiId } = await keyring.createApi({ name: "documents" });
  await keyring.updateApi({ apiId, ipAllowlist: ["192.0.2.0/24"] });
  await keyring.createRole({ name: "editor", description: "edits", permissions: ["a.b"] });
  await keyring.createIdentity({ externalId: "user_1", meta: { plan: "pro" }, ratelimits: [limit("shared")] });
  await keyring.createMigration({ id: "old", algorithm: "sha256" });
  await keyring.updateWorkspace({ enabled: true });
  const { key: _, rootKeyId } = await keyring.createRootKey({
    permissions: ["api.*.verify_key"],
    name: "ops",
    expires: NOON + 1,
  });
  await createRatelimits(store).setOverride({ namespace: "email", identifier: "user_1", limit: 5, duration: 1_000 });
  const { keyId } = await keyring.createKey({
    apiId,
    name: "n",
    externalId: "user_1",
    meta: { deep: { list: [1] } },
    expires: NOON + 1,
    roles: ["editor"],
    permissions: ["c.d"],
    ratelimits: [limit("own")],
    credits: { remaining: 5, refill: { interval: "monthly", amount: 5, refillDay: 1 } },
    ipAllowlist: ["192.0.2.7"],
  });
  const row = (await store.readMany("keys", [keyId]))[0] as KeyRow;
  const record = await store.findKey(row.digest as string);
  const root = (await store.readMany("rootKeys", [rootKeyId]))[0]!;
  const named = { workspaces: undefined, ...Object.fromEntries(await Promise.all(tables(store))) } as Record<
    string,
    unknown
  >;
  const whole: KeyRow = {
    ...row,
    migrationId: "old",
    hash: "h",
    foreignDigest: "f",
    refillCursor: NOON,
    updatedAt: NOON,
  };
  const onceRecord = { workspaceId: "ws_default", id: "id", body: "body", until: 1 };
  const bounds = { maxRecords: 1, maxPerWorkspace: 1 };
  const ids = { ids: ["a"], fields: [], count: 1 };
  const entry = { number: 5, time: 0, workspaceId: "w", actorKind: "program", operation: "createKey", ...ids };
  const alert = { number: 1, kind: "credits.low", subject: "s", body: "{}", tries: 0, due: 1 };
  const request = { holder: "h", spent: 0, cost: 1, step: 1, size: 1, period: 0, now: NOON, until: NOON + 1 };
  return [
    ["findKey", [digest], record],
    ["findKeys", [[digest, digest]], [record, record]],
    ["findKeyIds", [[{ digest }, { digest }]], [keyId, keyId]],
    ["findForeignKey", ["old", digest], record],
    ["findRootKey", [digest], root],
    ["adoptDigest", [keyId, digest], true],
    ["spendCredits", [keyId, 1, 0], { ok: true, remaining: 4 }],
    [
      "spendOnce",
      [keyId, 0, { cost: 1, now: 0, once: { record: onceRecord, bounds } }],
      { outcome: "done", spend: { ok: true, remaining: 4 } },
    ],
    ["findOnce", ["id", 0], "body"],
    ["readSecret", ["idempotency"], "0".repeat(64)],
    [
      "countOutcomes",
      [{ source: "p", seq: 1, at: 0, maxTagSets: 1, cells: [] }],
      { outcome: "counted", folded: [], busy: 1 },
    ],
    [
      "readOutcomes",
      [{ level: "day", workspaceId: "ws_default", from: 0, to: 0, by: [], maxRows: 2 }],
      [{ time: 0, apiId: "a", keyId: "", externalId: "", tags: ["b"], counts: [1, 0], spent: 3, rows: 1 }],
    ],
    [
      "readCreditDays",
      [{ workspaceId: "ws_default", from: 0, to: 0 }],
      [{ account: "1", day: 0, credited: 1, refilled: 2, adjusted: -1, spent: 1, forfeited: 0, balance: 1 }],
    ],
    ["pruneOutcomes", ["day", 0, 5], 5],
    ["readAudit", [{ workspaceId: "ws_default", among: 10, limit: 1 }], { entries: [entry], next: 5 }],
    [
      "searchKeys",
      [{ workspaceId: "ws_default", apiIds: ["api"], order: "newest", among: 10, limit: 1, mayMatch: {} }],
      { keys: [whole], looked: 1, last: { id: "key_1" } },
    ],
    [
      "countKeys",
      [{ workspaceId: "ws_default", apiId: "api", among: 10, now: 0 }],
      { total: 2, disabled: 1, expired: 0, last: "key_1" },
    ],
    ["changeAlerts", [[{ workspaceId: "w", kind: "credits.low", subject: "s", from: 1, until: 1 }]], [true]],
    ["listAlerts", [{ workspaceId: "w", state: "raised", limit: 1 }], [alert]],
    ["takeAlerts", [{ workspaceId: "w", now: 0, until: 1, limit: 1, endedBefore: 0 }], [alert]],
    ["drawCredits", [keyId, request], { drawn: 1, generation: 0, remaining: 3 }],
    ["readBalances", [[{ keyId, period: 0 }], 0], [{ remaining: 4, period: 0, reserved: 0 }]],
    ["readMany", ["workspaces", ["ws_default"]], await store.readMany("workspaces", ["ws_default"])],
    ["readMany", ["apis", [apiId]], await store.readMany("apis", [apiId])],
    ["readMany", ["keys", [keyId]], [whole]],
    ...Object.entries(named).flatMap(([table, answer]) =>
      answer === undefined ? [] : [["readMany", [table, [(answer as { id: string }).id]], [answer]] as const],
    ),
    ["readNames", ["roles", "ws_default", ["editor"]], [named["roles"]]],
    ["list", ["keys", { workspaceId: "ws_default", limit: 2 }], [row, row]],
    ["insertKeys", [[{ row }, { row }]], [true, false]],
    ["write", [[]], "written"],
  ];
}

function tables(store: Store) {
  const names: (keyof Rows)[] = [
    "identities",
    "roles",
    "permissions",
    "migrations",
    "rootKeys",
    "namespaces",
    "overrides",
  ];
  return names.map(
    async (table) => [table, (await store.list(table, { workspaceId: "ws_default", limit: 1 }))[0]] as const,
  );
}

/** A store of which one method answers `answer`. */
const answering = (name: string, answer: () => unknown): Methods =>
  guardStore({ ...memoryStore(), [name]: answer }, 1_000) as unknown as Methods;

/** Where each part of an answer is, as an error names it, and the answer with another value there. */
function* parts(value: unknown): Generator<readonly [path: string, old: unknown, replace: (by: unknown) => unknown]> {
  yield ["", value, (by) => by];
  if (typeof value !== "object" || value === null) return;
  for (const [name, part] of Object.entries(value)) {
    const inner = Array.isArray(value) ? `[${name}]` : name;
    for (const [below, old, replace] of parts(part)) {
      // Free-form data may hold anything that JSON can.
      if (name === "meta" && below !== "") continue;
      const whole = inner + (below === "" || below.startsWith("[") ? below : `.${below}`);
      const put = (by: unknown): unknown => {
        const copy = Array.isArray(value) ? [...(value as unknown[])] : { ...value };
        (copy as Record<string, unknown>)[name] = replace(by);
        return copy;
      };
      yield [whole, old, put];
    }
  }
}

const failing = (message: string): never => {
  throw new Error(message);
};
const trap = () => new Proxy({}, { getOwnPropertyDescriptor: () => failing(SECRET), get: () => failing(SECRET) });
/** Values of no type that a part may have, or of one that it has not. `name: 1` where text is due, and the like. */
const junk = fc.oneof(
  fc.constantFrom<unknown>(NaN, Infinity, -Infinity, 1.5, 2 ** 53, -(2 ** 60), 10n, Symbol(SECRET), () => SECRET),
  fc.constantFrom<unknown>(new Date(NaN), new Map(), [[]], { [SECRET]: SECRET }, new Boolean(true), new String(SECRET)),
  fc.constant(trap),
  fc.constantFrom<unknown>(null, "false", "yes", 0, 1, true, false, -1, "", SECRET.repeat(1_000)),
  fc.constant("x".repeat(8_193)),
  fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true }),
);

/** Whether a part may be this: the other values are junk there. */
function fits(path: string, old: unknown, value: unknown): boolean {
  const name =
    path
      .replace(/\[\d+\]$/, "")
      .split(".")
      .at(-1) ?? "";
  if (value === undefined) return true;
  if (name === "ref")
    return Number.isSafeInteger(value) || (typeof value === "string" && value !== "" && value.length <= 8_192);
  if (name === "remaining" && value === null) return true;
  if (typeof old === "boolean") return typeof value === "boolean";
  if (typeof old === "string") return typeof value === "string" && value.length <= 8_192;
  if (typeof old === "number") return Number.isSafeInteger(value);
  if (name === "meta" && value === trap) return true;
  if (name === "meta") return typeof value === "object" && value !== null && !Array.isArray(value);
  if (!Array.isArray(old) || !Array.isArray(value)) return false;
  if (value.every((item) => typeof item === "string" || Array.isArray(item))) return true;
  return value.length === old.length && value.every((item, i) => fits(`${path}[${i}]`, old[i], item));
}

async function outcome(act: () => unknown): Promise<unknown> {
  try {
    return { answered: await act() };
  } catch (error) {
    return error;
  }
}

/** By method, or by table of `readMany`. */
const MAY_BE_ABSENT: Readonly<Record<string, readonly string[]>> = {
  countOutcomes: ["busy"],
  findKey: mayBeAbsent("record"),
  findForeignKey: mayBeAbsent("record"),
  findRootKey: ["name", "expires"],
  spendOnce: ["spend"],
  searchKeys: ["last"],
  countKeys: ["last"],
  readAudit: ["next"],
  listAlerts: ["due"],
  takeAlerts: ["due"],
  rootKeys: ["name", "expires"],
  identities: ["meta"],
  roles: ["description"],
  permissions: ["description"],
  keys: mayBeAbsent("row"),
};

describe("guardStore: what a foreign store answers", () => {
  it("is passed on as it is where it keeps to the port, late or not", async () => {
    for (const [name, given, answer] of await calls()) {
      for (const late of [false, true]) {
        const guarded = answering(name, () => (late ? Promise.resolve(answer) : answer));
        const found = guarded[name]!(...given);
        expect(found instanceof Promise, name).toBe(late);
        expect(await found, `${name} ${String(given[0])}`).toStrictEqual(answer);
      }
    }
  });

  it("any part of any answer broken: an error that names the method and the part, and no value (property)", async () => {
    for (const [name, given, answer] of await calls()) {
      for (const [path, old, replace] of parts(answer)) {
        await fc.assert(
          fc.asyncProperty(junk, fc.boolean(), async (value, late) => {
            // A promise of such a proxy rejects by itself.
            fc.pre(!fits(path, old, value) && !(late && path === "" && value === trap));
            // A batch may answer that there is none.
            fc.pre(!(path === "" && Array.isArray(value) && value.every((item) => item === undefined)));
            const broken = replace(value === trap ? trap() : value);
            const error = await outcome(() =>
              answering(name, () => (late ? Promise.resolve(broken) : broken))[name]!(...given),
            );
            if (!isKeystileError(error)) expect(error, `${name}: ${path}`).toBe("a KeystileError");
            else {
              expect([error.code, error.status]).toEqual(["STORE_INVALID", 500]);
              expect(error.message).toContain(`the store's answer to ${name} is malformed: ${path}`);
              expect(error.message).not.toContain(SECRET);
            }
          }),
          // What `changeAlerts` may answer, and no other part may be.
          { numRuns: 15, examples: [[[false], false]] },
        );
      }
    }
  }, 60_000);

  it("any part missing, or only inherited, is broken too; what may be absent is absent then", async () => {
    for (const [name, given, answer] of await calls()) {
      const isRow = name === "readMany";
      const whole = isRow ? (answer as object[])[0] : answer;
      if (typeof whole !== "object" || Array.isArray(whole)) continue;
      const optional = MAY_BE_ABSENT[isRow ? (given[0] as string) : name] ?? [];
      for (const [field, value] of Object.entries(whole as object)) {
        const rest = Object.fromEntries(Object.entries(whole as object).filter(([other]) => other !== field));
        const inheriting = Object.assign(Object.create({ [field]: value }) as object, rest);
        for (const broken of [rest, inheriting, { ...rest, [field]: undefined }]) {
          const found = await outcome(() => answering(name, () => (isRow ? [broken] : broken))[name]!(...given));
          if (optional.includes(field)) expect(found, field).toStrictEqual({ answered: isRow ? [rest] : rest });
          else
            expect(found, `${name}.${field}`).toMatchObject({
              code: "STORE_INVALID",
              message: expect.stringContaining(field),
            });
        }
      }
    }
  });

  it.each([
    ["meta", "text"],
    ["meta", null],
    ["meta", ["list"]],
    ["meta", { deep: "x".repeat(65_536) }],
    ["refill", { interval: "monthly", amount: 5 }, "refill.refillDay"],
    ["refill", { interval: "weekly", amount: 5 }, "refill.refillDay"],
    ["refill", { interval: "weekly", amount: 5, refillDay: 8 }, "refill.refillDay"],
    ["refill", { interval: "yearly", amount: 5 }, "refill.interval"],
    ["refill", { interval: "daily", amount: 5, rollover: -1 }, "refill.rollover"],
  ] as const)("a key whose %s is %.60j is refused", async (field, value, path: string = field) => {
    const [, given, answer] = (await calls()).find(([name]) => name === "findKey")!;
    const broken = { ...(answer as object), [field]: value };
    expect(await outcome(() => answering("findKey", () => broken)["findKey"]!(...given))).toMatchObject({
      code: "STORE_INVALID",
      message: expect.stringContaining(`malformed: ${path} `),
    });
  });

  it("a spend or a draw that is stale says true, or nothing of it", async () => {
    for (const name of ["spendCredits", "drawCredits"]) {
      const [, given, answer] = (await calls()).find(([called]) => called === name)!;
      for (const stale of [false, 1, "true", null])
        expect(
          await outcome(() => answering(name, () => ({ ...(answer as object), stale }))[name]!(...given)),
        ).toMatchObject({ code: "STORE_INVALID", message: expect.stringContaining("malformed: stale ") });
    }
  });

  it("a settlement says why it was not made, and only then", async () => {
    const settling = async (answer: unknown) => {
      const store = guardStore({ ...memoryStore(), settleCredits: () => answer as never });
      return outcome(() => store.settleCredits("ref", { id: "res_1", spent: 0, now: NOON }));
    };
    for (const answer of [{ settled: true }, { settled: false, reason: "expired" }])
      expect(await settling(answer)).toEqual({ answered: answer });
    for (const answer of [{ settled: false }, { settled: true, reason: "expired" }, { settled: false, reason: "no" }])
      expect(await settling(answer)).toMatchObject({ code: "STORE_INVALID" });
  });

  it("each property is read once, so that what was validated is what is used", () => {
    let reads = 0;
    const spend = {
      get ok() {
        return reads++ === 0 ? true : "yes";
      },
      remaining: -0,
    };
    const spent = answering("spendCredits", () => spend)["spendCredits"]!("k", 1, 0) as Spend;
    expect([spent.ok, spent.ok, reads, Object.is(spent.remaining, 0)]).toEqual([true, true, 1, true]);
  });

  it("lists are as long as they may be: no longer than asked for, one answer a key", () => {
    const row = { id: "x", version: 0, workspaceId: "w", algorithm: "sha256" };
    const read = (length: number) => Array<unknown>(length).fill(row);
    const list = (length: number) =>
      answering("list", () => read(length))["list"]!("migrations", { workspaceId: "w", limit: 2 });
    const names = (length: number) =>
      answering("readNames", () => read(length))["readNames"]!("migrations", "w", ["x"]);
    expect([list(2), names(1)]).toEqual([read(2), read(1)]);
    expect(() => list(3)).toThrow("the store's answer to list is malformed: must have at most 2 items");
    expect(() => names(2)).toThrow("must have at most 1 items");
    for (const answer of [[], [true], [true, true, true]]) {
      expect(() => answering("insertKeys", () => answer)["insertKeys"]!([{}, {}])).toThrow(
        /must have (at most )?2 items/,
      );
    }
  });

  it("batches have one answer for each argument, rows the id that was asked for at their place", () => {
    const row = (id: string) => ({ id, version: 0, workspaceId: "w", algorithm: "sha256" });
    const read = (...answer: unknown[]) => answering("readMany", () => answer)["readMany"]!("migrations", ["a", "b"]);
    expect(read(row("a"), row("b"))).toEqual([row("a"), row("b")]);
    expect(read(undefined, row("b"))).toEqual([undefined, row("b")]);
    expect(() => read(row("b"), row("a"))).toThrow(
      "the store's answer to readMany is malformed: [0].id must be the id given at this place",
    );
    expect(() => read(row("b"))).toThrow("must have 2 items");
    expect(() => read(row("a"), null)).toThrow("[1] must be an object");
    for (const method of ["findKeys", "readBalances"])
      for (const answer of [[], [undefined, undefined]])
        expect(() => answering(method, () => answer)[method]!([{}])).toThrow(/must have (at most )?1 items/);
  });

  it("a write has one of its three outcomes", () => {
    const write = (answer: unknown) => answering("write", () => answer)["write"]!([]);
    for (const outcome of ["written", "conflict", "taken"]) expect(write(outcome)).toBe(outcome);
    for (const outcome of [true, false, "refused", undefined])
      expect(() => write(outcome)).toThrow("must be one of: written, conflict, taken");
  });

  it("a write under an idempotency key has three more, and no other write has them", () => {
    for (const outcome of ["repeated", "mismatch", "full"]) {
      const { write } = answering("write", () => outcome);
      expect(write!([], undefined, {})).toBe(outcome);
      expect(() => write!([], undefined, undefined)).toThrow("must be one of: written, conflict, taken");
    }
  });

  it("a write under an idempotency key does not reach a store without that power", () => {
    const store = memoryStore();
    const guarded = guardStore({ ...store, powers: { ...store.powers, idempotency: false } });
    const record = { workspaceId: "ws", id: "id", body: "body", until: 1 };
    const once = { record, bounds: { maxRecords: 1, maxPerWorkspace: 1 }, now: 0 };
    expect(() => guarded.write([], [], once)).toThrow(expect.objectContaining({ code: "STORE_POWER_MISSING" }));
    expect(guarded.write([])).toBe("written");
  });

  it("what a method without an answer returns is dropped; a promise of it is waited for", async () => {
    expect(answering("pollChanges", () => ({ anything: 1 }))["pollChanges"]!()).toBeUndefined();
    const late = answering("returnCredits", () => Promise.resolve("done"))["returnCredits"]!();
    expect(late).toBeInstanceOf(Promise);
    expect(await late).toBeUndefined();
  });

  it("what it throws, or rejects with, rises as it is", async () => {
    const gone = new Error("gone");
    expect(() =>
      answering("findKey", () => {
        throw gone;
      })["findKey"]!(digest),
    ).toThrow(gone);
    await expect(answering("findKey", () => Promise.reject(gone))["findKey"]!(digest)).rejects.toBe(gone);
  });

  it("its methods are called as its own, with all that is given, and read anew each time", () => {
    class Custom {
      readonly #digests = new Set([digest]);
      adoptDigest(_ref: unknown, given: string): boolean {
        return this.#digests.has(given);
      }
    }
    const { powers } = memoryStore();
    const store = Object.assign(new Custom(), { powers, changes: () => () => undefined }) as unknown as Store;
    const guarded = guardStore(store);
    expect(guarded.adoptDigest("k", digest)).toBe(true);
    store.adoptDigest = () => false;
    expect(guarded.adoptDigest("k", digest)).toBe(false);
  });

  it("a change that cannot be understood may have been any; no function to end it is an error", () => {
    const told: Change[] = [];
    const hear = (change: unknown) =>
      guardStore({
        ...memoryStore(),
        subscribe: (listener) => {
          listener(change as Change);
          return () => undefined;
        },
      }).subscribe((heard) => told.push(heard));
    for (const change of [
      "created",
      "all",
      { digest },
      { digest: 5 },
      {},
      null,
      undefined,
      "everything",
      Object.create({ digest }),
      { table: "roles", id: "role_1", more: 1 },
      { table: "roles", id: 5 },
      { table: "roles" },
      { table: "keys", id: "key_1" },
      { table: "__proto__", id: "x" },
      Object.create({ table: "roles", id: "role_1" }),
    ]) {
      hear(change);
    }
    const row = { table: "roles", id: "role_1" };
    const times = (count: number, change: Change) => new Array<Change>(count).fill(change);
    expect(told).toEqual([
      "created",
      "all",
      { digest },
      "all",
      "all",
      "all",
      "all",
      "all",
      "all",
      row,
      ...times(5, "all"),
    ]);
    const mute = guardStore({ ...memoryStore(), subscribe: () => undefined as never });
    expect(() => mute.subscribe(() => undefined)).toThrow(expect.objectContaining({ code: "STORE_INVALID" }));
  });

  it("a field that is forgotten in a table of readers does not compile", () => {
    // @ts-expect-error -- `remaining` is missing
    const incomplete = { ok: flag } satisfies Fields<Spend>;
    // @ts-expect-error -- a text is no balance
    object<Spend>({ ok: flag, remaining: () => "5" });
    expectTypeOf(incomplete).toEqualTypeOf<{ ok: typeof flag }>();
  });
});

describe("guardStore: a foreign store that does not answer", () => {
  it("every method settles at its deadline, whichever kind of promise it is; a write says that its outcome is unknown", async () => {
    const given: Record<string, readonly unknown[]> = Object.fromEntries(
      (await calls()).map(([name, args]) => [name, args]),
    );
    const others = [
      ...["returnCredits", "reserveCredits", "settleCredits", "recordUses", "pollChanges", "settleAlert"],
      ...["findWallet", "spendWallets", "settleWallets", "readRefusals"],
    ];
    const methods = [...Object.keys(given), ...others];
    const writes = [
      "adoptDigest",
      "spendCredits",
      "spendOnce",
      "recordUses",
      "countOutcomes",
      "pruneOutcomes",
      "drawCredits",
      "returnCredits",
      "reserveCredits",
      "settleCredits",
      "changeAlerts",
      "takeAlerts",
      "settleAlert",
      "spendWallets",
      "settleWallets",
      "insertKeys",
      "write",
    ];
    const expected = Object.keys(memoryStore()).filter((name) => !["powers", "subscribe", "close"].includes(name));
    expect([...methods].sort()).toEqual(expected.sort());
    const began = performance.now();
    const hanging = [() => new Promise(() => undefined), () => ({ then: () => undefined })];
    await Promise.all(
      methods.flatMap((name) =>
        hanging.map(async (answer) => {
          const guarded = guardStore({ ...memoryStore(), [name]: answer }, 30) as unknown as Methods;
          const error = await outcome(() => guarded[name]!(...(given[name] ?? [])));
          const unknown = writes.includes(name) ? "; whether it was done is unknown" : "";
          const message = `the store did not answer ${name} within 30 ms${unknown}`;
          expect(error).toMatchObject({ code: "STORE_TIMEOUT", status: 503, message });
        }),
      ),
    );
    expect(performance.now() - began).toBeLessThan(2_000);
  });
});

describe("guardStore: whom it guards", () => {
  it("stores of this package and guarded ones pass as they are; whatever is wrapped, copied or made like one does not", async () => {
    const memory = memoryStore();
    const sqlite = sqliteStore(":memory:");
    expect([guardStore(memory), guardStore(sqlite)]).toEqual([memory, sqlite]);
    expect(guardStore(memory)).toBe(memory);
    expect(guardStore(sqlite)).toBe(sqlite);
    for (const foreign of [{ ...memory }, new Proxy(memory, {}), Object.create(memory) as Store, cachedStore(memory)]) {
      const guarded = guardStore(foreign);
      expect(guarded).not.toBe(foreign);
      expect(guardStore(guarded, 5)).toBe(guarded);
    }
    await sqlite.close();
  });
});
