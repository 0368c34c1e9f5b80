/**
 * Ruling G4, hostile input A045: keys, hashes and tokens are planted, every failing path is driven, and everything said
 * is searched for them.
 */
import { createHash } from "node:crypto";
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import type { Store } from "../src/contracts/store.js";
import {
  createKeyring,
  createVerifier,
  type Keyring,
  memoryLimiter,
  memoryStore,
  type OutcomeEvent,
  type VerifierOptions,
} from "../src/index.js";
import { sqliteStore } from "../src/stores/sqlite/index.js";

const digest = (text: string, encoding: "hex" | "base64" | "base64url" = "hex", algorithm = "sha256") =>
  createHash(algorithm).update(text).digest(encoding);

/** A key that another system made: also what a root key or a bearer token looks like. */
const IMPORTED = "CANARY_live_4f9Qz7Lw1XkP0vRt83";
const TOKEN = "eyJCANARYhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";
const PENDING_HASH = digest(IMPORTED, "hex", "sha512");

/** Characters of a secret in a row that count as having shown it: errors of JSON.parse, for one, quote ten of them. */
const WINDOW = 8;
/** All that must never be seen, cut into windows. */
function windowsOf(secrets: readonly string[]): string[] {
  return secrets.flatMap((secret) =>
    Array.from({ length: secret.length - WINDOW + 1 }, (_, i) => secret.slice(i, i + WINDOW)),
  );
}

/**
 * Everything that anything a program could print shows of a value: its text, stack, causes, hidden properties and JSON.
 */
function everythingSaidBy(value: unknown): string {
  const texts = [
    inspect(value, { depth: Infinity, showHidden: true, maxStringLength: Infinity, maxArrayLength: Infinity }),
  ];
  for (let one = value, depth = 0; one instanceof Error && depth < 10; one = one.cause, depth++) {
    texts.push(
      String(one),
      one.message,
      one.stack ?? "",
      JSON.stringify(one),
      JSON.stringify(Object.getOwnPropertyDescriptors(one)),
    );
  }
  try {
    texts.push(JSON.stringify(value) ?? "");
  } catch {
    // A value that has no JSON shows none.
  }
  return texts.join("\n");
}

async function planted(store: Store, options: VerifierOptions = {}) {
  const events: OutcomeEvent[] = [];
  const keyring = createKeyring(store);
  const verifier = createVerifier(store, { onOutcome: (event) => events.push(event), ...options });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const made = await keyring.createKey({
    apiId,
    prefix: "sk",
    credits: { remaining: 1_000 },
    externalId: "u",
    roles: [],
  });
  await keyring.createMigration({ id: "native", algorithm: "sha256" });
  await keyring.createMigration({ id: "pending", algorithm: "sha512" });
  const { migrated } = await keyring.migrateKeys({ migrationId: "native", apiId, keys: [{ hash: digest(IMPORTED) }] });
  await keyring.migrateKeys({ migrationId: "pending", apiId, keys: [{ hash: PENDING_HASH }] });
  // The first characters of a key are shown on purpose, in `start`; the rest is the secret.
  const secrets = [made.key.slice(7), digest(made.key), digest(made.key, "base64"), IMPORTED, TOKEN, PENDING_HASH];
  for (const encoding of ["hex", "base64", "base64url"] as const) secrets.push(digest(IMPORTED, encoding));
  const windows = windowsOf(secrets);
  /** Calls that must fail, and must not say why with a secret in it. */
  const drive = async (calls: readonly (() => unknown)[]): Promise<number> => {
    let failures = 0;
    for (const call of calls) {
      const error = await (async () => call())().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (error === undefined) continue;
      failures++;
      const said = everythingSaidBy(error);
      expect(
        windows.filter((window) => said.includes(window)),
        said,
      ).toEqual([]);
    }
    return failures;
  };
  const silent = (value: unknown) => {
    const said = everythingSaidBy(value);
    expect(
      windows.filter((window) => said.includes(window)),
      said.slice(0, 2_000),
    ).toEqual([]);
  };
  return {
    store,
    keyring,
    verifier,
    apiId,
    keyId: made.keyId,
    key: made.key,
    importedId: migrated[0]!.keyId,
    events,
    drive,
    silent,
  };
}

/** A secret as a value of many kinds. */
function shapesOf(secret: string): readonly unknown[] {
  return [
    secret,
    `${secret}\ud800`,
    secret.repeat(40),
    [secret],
    [[secret]],
    { [secret]: secret },
    [{ [secret]: 1 }],
    [{ name: secret, limit: secret }],
  ];
}

/**
 * Bodies with a secret where it may land by mistake: in each place alone, in all places at once, and as the name of a
 * place.
 */
function misplaced(secret: string, names: readonly string[], base: object): object[] {
  const everywhere = shapesOf(secret).map((shape) => ({
    ...base,
    ...Object.fromEntries(names.map((name) => [name, shape])),
  }));
  const alone = names.flatMap((name) => shapesOf(secret).map((shape) => ({ ...base, [name]: shape })));
  return [...everywhere, ...alone, { [secret]: 1 }, { ...base, [secret]: { [secret]: secret } }];
}

const BODY_NAMES = ["key", "tags", "permissions", "credits", "ratelimits", "migrationId"];
/** Names in the bodies of administration: what is looked up, and the rest. */
const LOOKED_UP = [
  "apiId",
  "keyId",
  "key",
  "permission",
  "role",
  "roleId",
  "identity",
  "migrationId",
  "cursor",
  "keys",
];
const GIVEN =
  "name prefix byteLength externalId meta roles permissions expires credits ratelimits enabled recoverable ipAllowlist limit " +
  "search permanent expiration value operation slug description id algorithm";

describe.each([
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(":memory:")],
] as const)("ruling G4: nothing says a secret (%s)", (_name, open) => {
  it("requests of verify with a secret in any place", async () => {
    const { verifier, key, drive } = await planted(open());
    for (const secret of [key, IMPORTED, TOKEN, digest(IMPORTED), digest(key, "base64")]) {
      const bodies = misplaced(secret, BODY_NAMES, { key });
      const limits = [{ name: "abc", cost: secret }, { name: "abc", [secret]: 1 }, { name: secret }];
      const more = [
        ...limits.map((one) => ({ key, ratelimits: [one] })),
        { key, credits: { cost: secret } },
        { key, credits: { [secret]: 1 } },
      ];
      const queries = [`${secret} AND`, `a ${secret}`, `(${secret}`, `${secret}!`, `a AND OR ${secret}`].map(
        (permissions) => ({
          key,
          permissions,
        }),
      );
      const failures = await drive(
        [...bodies, ...more, ...queries].map((body) => () => verifier.verify(body as never)),
      );
      expect(failures).toBeGreaterThan(30);
    }
    expect(await drive([() => verifier.verify({ key }, IMPORTED as never), () => verifier.verify(key as never)])).toBe(
      2,
    );
  });

  it("requests of every verb of administration with a secret in any place", async () => {
    const { keyring, key, drive, apiId, keyId } = await planted(open());
    const given = GIVEN.split(" ");
    for (const [verb, act] of Object.entries(keyring) as [keyof Keyring, (body: unknown) => Promise<unknown>][]) {
      const everywhere = shapesOf(key).flatMap((shape) => [
        Object.fromEntries([...LOOKED_UP, ...given].map((name) => [name, shape])),
        { apiId, keyId, ...Object.fromEntries(given.map((name) => [name, shape])) },
      ]);
      const alone = LOOKED_UP.map((name) => ({ [name]: key }));
      const bodies = [
        ...everywhere,
        ...alone,
        { [key]: 1 },
        { apiId, keyId, name: "docs", [digest(IMPORTED)]: { [key]: key } },
      ];
      expect(await drive(bodies.map((body) => () => act(body))), verb).toBeGreaterThan(15);
    }
    const hashes = [
      { hash: digest(IMPORTED), [key]: 1 },
      { hash: digest(IMPORTED), expires: key },
      { hash: digest(IMPORTED), roles: [key, ""] },
    ];
    const imports = hashes.map(
      (one) => () => keyring.migrateKeys({ migrationId: "native", apiId, keys: [one] as never }),
    );
    expect(await drive(imports)).toBe(3);
    expect(await drive([() => keyring.createKey({ apiId, roles: [key] }), () => keyring.whoami({ key: TOKEN })])).toBe(
      2,
    );
  });

  it("what is closed, what does not answer, and what the program configured wrongly", async () => {
    const { store, keyring, verifier, key, keyId, drive, apiId } = await planted(open());
    const deny = createVerifier(store, {
      limiter: { ...memoryLimiter(), take: () => Promise.reject(new Error("gone")) },
      onLimiterFailure: "deny",
    });
    await keyring.updateKey({ keyId, ratelimits: [{ name: "minute", limit: 5, duration: 1_000, autoApply: true }] });
    const own = createKeyring(store, { migrationAlgorithms: { own: (text) => text } });
    await own.createMigration({ id: "own", algorithm: "own" });
    await own.migrateKeys({ migrationId: "own", apiId, keys: [{ hash: `${IMPORTED}!` }] });
    const noText = createVerifier(store, { migrationAlgorithms: { own: () => 5 as never } });
    const lost = createVerifier(store, { clock: () => NaN });
    const wrong = [
      () => deny.verify({ key }),
      () => verifier.verify({ key: TOKEN, migrationId: "own" }),
      () => noText.verify({ key: TOKEN, migrationId: "own" }),
      () => lost.verify({ key }),
      () => createKeyring(store, { workspaceId: `${IMPORTED} ` }),
      () => createVerifier(store, { credits: { mode: key as never } }),
      () => own.createMigration({ id: "own", algorithm: "own" }),
    ];
    expect(await drive(wrong)).toBe(wrong.length);
    await verifier.close();
    expect(await drive([() => verifier.verify({ key })])).toBe(1);
    const after = createVerifier(store, { credits: { mode: "leased", firstStep: 250 } });
    await store.close();
    const closed = [
      () => after.verify({ key }),
      () => after.verify({ key: IMPORTED, migrationId: "pending" }),
      () => keyring.whoami({ key }),
      () => keyring.migrateKeys({ migrationId: "native", apiId, keys: [{ hash: digest(TOKEN) }] }),
      () => store.findKey(digest(key, "base64")),
      () => store.findForeignKey("pending", PENDING_HASH),
    ];
    expect(await drive(closed)).toBe(closed.length);
  });

  it("a store that fails at any call, wherever the failure comes through", async () => {
    const inner = open();
    let broken = "";
    const { powers, ...methods } = inner;
    const breaking = Object.fromEntries(
      Object.entries(methods).map(([name, method]: [string, (...given: never[]) => unknown]) => [
        name,
        (...given: never[]) => {
          if (name === broken) throw new Error(`${name} failed`);
          return method(...given);
        },
      ]),
    ) as unknown as typeof methods;
    const store: Store = { powers, ...breaking };
    const { keyring, key, keyId, apiId, drive } = await planted(store);
    let failures = 0;
    for (broken of Object.keys(methods)) {
      for (const mode of ["exact", "leased"] as const) {
        failures += await drive([
          () => createVerifier(store, { credits: { mode } }).verify({ key }),
          () => createVerifier(store).verify({ key: IMPORTED, migrationId: "pending" }),
          () => createVerifier(store).verify({ key: TOKEN, migrationId: "pending" }),
          () => keyring.rerollKey({ keyId, expiration: 1_000 }),
          () => keyring.migrateKeys({ migrationId: "native", apiId, keys: [{ hash: digest(TOKEN) }] }),
        ]);
      }
    }
    expect(failures).toBeGreaterThan(20);
  });

  it("what can be printed of a verifier, a keyring, a store, a limiter, and of every event", async () => {
    const { store, keyring, verifier, key, keyId, events, silent } = await planted(open());
    const leased = createVerifier(store, { credits: { mode: "leased", firstStep: 250 } });
    for (const body of [
      { key },
      { key, permissions: "a" },
      { key: TOKEN },
      { key: IMPORTED, migrationId: "pending" },
    ]) {
      for (const one of [verifier, leased])
        await one.verify({ ...body, tags: [`key=${body.key}`, body.key, `${body.key}${body.key}`] });
    }
    for (const value of [verifier, leased, keyring, store, memoryLimiter(), verifier.counters()]) silent(value);
    const { plaintext: _none, ...data } = (await keyring.getKey({ keyId })) as { plaintext?: never };
    silent(data);
    silent(await keyring.updateKey({ keyId, enabled: true }));
    await verifier.close();
    expect(events.length).toBe(4);
    expect(events.flatMap(({ tags }) => tags).filter((tag) => tag.includes("[key]"))).toHaveLength(12);
    silent(events);
  });
});
