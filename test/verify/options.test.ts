/** createVerifier: its options, what a closed one does, and what it counts. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  createKeyring,
  createVerifier,
  type Limiter,
  memoryLimiter,
  memoryStore,
  type OutcomeEvent,
  type Store,
} from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import type { StorePowers } from "../../src/contracts/store.js";
import type { CreditsOptions } from "../../src/verify/verifier-options.js";
import { failure, NOON, world } from "../spec/support.js";

const lacking = (powers: Partial<StorePowers>): Store => {
  const store = memoryStore();
  return { ...store, powers: { ...store.powers, ...powers } };
};

describe("options of credits", () => {
  it.each<[object | null, string]>([
    [null, "options.credits must be an object, not an array or a class instance"],
    [{}, "options.credits.mode must be one of: exact, leased"],
    [{ mode: "free" }, "options.credits.mode must be one of: exact, leased"],
    [{ mode: "exact", size: 5 }, "options.credits.size is not an option; there are: mode"],
    [
      { mode: "leased", sizes: 5 },
      "options.credits.sizes is not an option; there are: mode, size, step, firstStep, ttl, keys, closeTimeout",
    ],
    [{ mode: "leased", size: 0 }, "options.credits.size must be from 1 to 1000000000"],
    [{ mode: "leased", step: 0 }, "options.credits.step must be from 1 to 1000000000"],
    [{ mode: "leased", firstStep: 0 }, "options.credits.firstStep must be from 1 to 1000000000"],
    [{ mode: "leased", ttl: 99 }, "options.credits.ttl must be from 100 to 3600000"],
    [{ mode: "leased", keys: 0 }, "options.credits.keys must be from 1 to 10000000"],
    [{ mode: "leased", closeTimeout: -1 }, "options.credits.closeTimeout must be from 0 to 3600000"],
    [{ mode: "leased", size: 10, step: 11 }, "options.credits.step must be at most options.credits.size"],
    [
      { mode: "leased", size: 10, step: 5, firstStep: 6 },
      "options.credits.firstStep must be at most options.credits.step, a quarter of the size by default",
    ],
    [
      { mode: "leased", firstStep: 251 },
      "options.credits.firstStep must be at most options.credits.step, a quarter of the size by default",
    ],
  ])("%j is refused", (credits, message) => {
    expect(() => createVerifier(memoryStore(), { credits: credits as never })).toThrow(message);
  });

  it.each<[CreditsOptions]>([
    [{ mode: "exact" }],
    [{ mode: "leased", size: 10, step: 10, firstStep: 10 }],
    [{ mode: "leased", firstStep: 250 }],
    [{ mode: "leased", ttl: 100, keys: 1, closeTimeout: 0 }],
  ])("%j is accepted", async (credits) => {
    await createVerifier(memoryStore(), { credits }).close();
  });

  it("leases need a store that has them, and a size above the step one that reserves", async () => {
    const missing = (detail: string): unknown => expect.objectContaining({ code: "STORE_POWER_MISSING", detail });
    const credits = { mode: "leased", size: 10, step: 5 } as const;
    expect(() => createVerifier(lacking({ leases: false, reserves: false }), { credits })).toThrow(
      missing('options.credits.mode "leased" needs the power "leases", which this store lacks'),
    );
    expect(() => createVerifier(lacking({ reserves: false }), { credits })).toThrow(
      missing('options.credits.size above step needs the power "reserves", which this store lacks'),
    );
    for (const sizes of [{}, { step: 5 }, { size: 5, step: 5 }])
      await createVerifier(lacking({ reserves: false }), { credits: { mode: "leased", ...sizes } }).close();
    await createVerifier(lacking({ leases: false, reserves: false })).close();
  });
});

describe("options of the cache", () => {
  it("are those of this verifier: with a size of 1 two keys in turns are read each time", async () => {
    const { store, verifier: withoutOptions, create } = await world();
    const found: string[] = [];
    const counted: Store = { ...store, findKey: (digest) => (found.push(digest), store.findKey(digest)) };
    const keys = [(await create()).key, (await create()).key];
    const small = createVerifier(counted, { cache: { size: 1 } });
    for (const key of [...keys, ...keys, ...keys]) expect((await small.verify({ key })).code).toBe("VALID");
    expect(found).toHaveLength(6);
    await small.close();
    await withoutOptions.close();
  });
});

describe("options and a polluted prototype", () => {
  it("leases have the sizes that were given, and else the defaults", async () => {
    const { store, verifier, create } = await world();
    await verifier.close();
    const drawn: unknown[] = [];
    const counted: Store = {
      ...store,
      drawCredits: (ref, request) => (drawn.push(request.step), store.drawCredits(ref, request)),
    };
    const polluted = Object.prototype as { firstStep?: number };
    for (const firstStep of [undefined, 7]) {
      const { key } = await create({ credits: { remaining: 100 } });
      if (firstStep !== undefined) polluted.firstStep = firstStep;
      const leased = createVerifier(counted, { credits: { mode: "leased" } });
      delete polluted.firstStep;
      for (let i = 0; i < 4; i++) await leased.verify({ key });
      await leased.close();
      drawn.push("closed");
    }
    const [first, second] = [drawn.slice(0, drawn.length / 2), drawn.slice(drawn.length / 2)];
    expect(first.length).toBeGreaterThan(1);
    expect(second).toEqual(first);
  });
});

describe("options of idempotency keys", () => {
  it("a workspace alone may have all records, or fewer if asked for", async () => {
    for (const [idempotency, most] of [
      [{ records: 3 }, 3],
      [{ records: 7, recordsPerWorkspace: 2 }, 2],
    ] as const) {
      const { verifier, create } = await world({ idempotency });
      const { key } = await create();
      for (let i = 0; i < most; i++)
        expect((await verifier.verify({ key }, { idempotencyKey: `${i}` })).code).toBe("VALID");
      expect((await failure(verifier.verify({ key }, { idempotencyKey: "more" }))).code).toBe("IDEMPOTENCY_FULL");
    }
  });
});

describe("options.clock", () => {
  it("is read once for each call, in whole milliseconds; one that tells no time fails the call", async () => {
    const { store, create } = await world();
    const { key } = await create();
    const times = [NOON + 0.9, NaN, NOON + 2];
    const events: OutcomeEvent[] = [];
    const verifier = createVerifier(store, {
      clock: () => times.shift() as number,
      onOutcome: (event) => events.push(event),
    });
    await verifier.verify({ key });
    await expect(verifier.verify({ key })).rejects.toThrow(
      new TypeError("options.clock must return Unix milliseconds"),
    );
    await verifier.verify({ key });
    await verifier.close();
    expect(events.map(({ time }) => time)).toEqual([NOON, NOON + 2]);
  });

  it("is not in seconds, by which no key would have expired; the clock of a test may begin in 1970", async () => {
    const { store, create } = await world();
    const { key } = await create();
    const seconds = createVerifier(store, { clock: () => Date.now() / 1_000 });
    await expect(seconds.verify({ key })).rejects.toThrow(
      new TypeError("options.clock must return Unix milliseconds, not seconds"),
    );
    for (const now of [0, 1, 1_000_000_000, 2_592_000_000])
      expect(await createVerifier(store, { clock: () => now }).verify({ key })).toMatchObject({ code: "VALID" });
  });

  it("tells the store the time only if it is the system's, by which a store may poll", async () => {
    const store = memoryStore();
    const polled: (number | "anew" | undefined)[] = [];
    const watched: Store = { ...store, pollChanges: (now) => (polled.push(now), store.pollChanges(now)) };
    await createVerifier(watched, { clock: () => NOON }).verify({ key: "k" });
    const before = Date.now();
    await createVerifier(watched).verify({ key: "k" });
    expect(polled).toEqual([undefined, expect.any(Number)]);
    expect(polled[1]).toBeGreaterThanOrEqual(before);
  });
});

describe("a verifier", () => {
  it("is frozen, and shows nothing of its store when it is printed or copied", () => {
    const verifier = createVerifier(memoryStore());
    expect(Object.isFrozen(verifier)).toBe(true);
    expect(Reflect.ownKeys({ ...verifier })).toEqual([
      "verify",
      "prepare",
      "reserve",
      "settle",
      "spend",
      "counters",
      "flush",
      "close",
    ]);
  });

  it.each([null, [], "x", new Date()])("refuses the context %o", async (context) => {
    const { verifier, create } = await world();
    const { key } = await create();
    await expect(verifier.verify({ key }, context as never)).rejects.toThrow(/^context must be an object/);
    expect((await verifier.verify({ key }, undefined)).code).toBe("VALID");
  });

  it("once closed refuses calls, counts on, and closes once", async () => {
    const { verifier, create } = await world();
    const { key } = await create();
    const none = {
      degraded: 0,
      outcomesDropped: 0,
      outcomesFolded: 0,
      outcomesUncounted: 0,
      creditsForfeited: 0,
      settlementsLate: 0,
      newcomersRefused: 0,
      bucketsDisplaced: 0,
    };
    expect(verifier.counters()).toStrictEqual(none);
    const closing = verifier.close();
    expect(verifier.close()).toBe(closing);
    const refused = await failure(verifier.verify({ key }));
    expect([refused.code, refused.detail]).toEqual([
      "VERIFIER_CLOSED",
      "the verifier was closed; make another to go on",
    ]);
    await closing;
    expect(verifier.counters()).toStrictEqual(none);
  });

  it.each(["exact", "leased"] as const)(
    "closing with %s credits waits for what is in flight, so that the store may be closed next",
    async (mode) => {
      const folder = mkdtempSync(join(tmpdir(), "keystile-close-"));
      const store = sqliteStore(join(folder, "keys.db"));
      const keyring = createKeyring(store);
      const { apiId } = await keyring.createApi({ name: "documents" });
      const ratelimits = [{ name: "minute", limit: 100, duration: 60_000, autoApply: true }];
      const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 100 }, ratelimits });
      const local = memoryLimiter();
      const limiter: Limiter = {
        async take(checks, now) {
          await new Promise((resolve) => setTimeout(resolve, 20));
          return local.take(checks, now);
        },
      };
      const events: string[] = [];
      const onOutcome = ({ code }: OutcomeEvent) => void events.push(code);
      const verifier = createVerifier(store, { limiter, onOutcome, credits: { mode } });
      const codes: string[] = [];
      const calls = Array.from({ length: 10 }, (_, i) =>
        verifier.verify({ key }, i === 0 ? { idempotencyKey: "job-1" } : {}).then(({ code }) => codes.push(code)),
      );
      await verifier.close();
      expect([codes, events]).toEqual([Array(10).fill("VALID"), Array(10).fill("VALID")]);
      expect((await keyring.getKey({ keyId })).credits?.remaining).toBe(90);
      await store.close();
      await Promise.all(calls);
      local.close();
      rmSync(folder, { recursive: true });
    },
  );

  it("closed with credits that the store does not take back: says so, and ends everything else", async () => {
    const store = memoryStore();
    const clock = () => NOON;
    const keyring = createKeyring(store, { clock });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 9 } });
    const events: OutcomeEvent[] = [];
    let subscribers = 0;
    const verifier = createVerifier(
      {
        ...store,
        returnCredits: () => Promise.reject(new Error("disk")),
        subscribe(listener) {
          const stop = store.subscribe(listener);
          subscribers++;
          return () => {
            subscribers--;
            stop();
          };
        },
      },
      {
        clock,
        credits: { mode: "leased", firstStep: 5, closeTimeout: 0 },
        onOutcome: (event) => events.push(event),
      },
    );
    expect((await verifier.verify({ key })).code).toBe("VALID");
    expect(subscribers).toBeGreaterThan(0);
    expect((await failure(verifier.close())).code).toBe("CREDITS_NOT_RETURNED");
    expect(events).toHaveLength(1);
    expect(subscribers).toBe(0);
    expect((await keyring.getKey({ keyId })).lastUsedAt).toBe(NOON);
  });
});
