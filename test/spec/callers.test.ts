/** Verification with a caller: contract 4.1-3, 4.1-4, 5, rulings A1, A2, B6, B7, E4, F1, F2. */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createAuthenticator } from "../../src/access/authenticate.js";
import { createCallerGrants } from "../../src/access/grants.js";
import {
  type Caller,
  createKeyring,
  createVerifier,
  memoryStore,
  type OutcomeEvent,
  type VerifierOptions,
  type Store,
} from "../../src/index.js";
import { keyRow } from "../../src/testing/store/rows.js";
import { counting, failure, limit, NOON } from "./support.js";
import { createPastKey } from "../as-service.js";

const HIDDEN = { valid: false, code: "NOT_FOUND" };
const NOBODY_S = "sk_nobodys";

/** Two APIs with a key each in one workspace, one in another; every key has credits and a limit. */
async function world(options: VerifierOptions = {}) {
  const clock = () => NOON;
  const { store, calls } = counting(memoryStore());
  const verifier = createVerifier(store, { clock, ...options });
  const make = async (workspaceId: string) => {
    const keyring = createKeyring(store, { clock, workspaceId });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const body = {
      apiId,
      credits: { remaining: 10 },
      ratelimits: [limit("requests")],
      permissions: ["documents.read"],
      name: "n",
    };
    return { keyring, apiId, ...(await keyring.createKey(body)) };
  };
  const [ours, theirs, foreign] = [await make("ws_1"), await make("ws_1"), await make("ws_2")];
  const callerOf = (...permissions: string[]): Caller => ({
    workspaceId: "ws_1",
    ...createCallerGrants(permissions, "ws_1"),
  });
  const verify = (key: string, caller: Caller, more: object = {}) => verifier.verify({ key, ...more }, { caller });
  return { store, calls, verifier, verify, callerOf, ours, theirs, foreign, clock };
}
type World = Awaited<ReturnType<typeof world>>;

/** What a key has left, asked by the program itself. */
async function left({ verifier }: World, key: string) {
  const { credits, ratelimits } = await verifier.verify({
    key,
    credits: { cost: 0 },
    ratelimits: [{ name: "requests", cost: 0 }],
  });
  return [credits, ratelimits?.[0]?.remaining];
}

describe("contract 4.1: the five permissions that verify", () => {
  const forms: [what: string, grant: (world: World) => string, sees: readonly string[]][] = [
    ["api.*.verify_key", () => "api.*.verify_key", ["ours", "theirs"]],
    ["api.<api_id>.verify_key", ({ ours }) => `api.${ours.apiId}.verify_key`, ["ours"]],
    ["keyspaces/*/keys/*#verify_key", () => "svc:v1:ws_1:keyspaces/*/keys/*#verify_key", ["ours", "theirs"]],
    [
      "keyspaces/<keyspace_id>/keys/*#verify_key",
      ({ ours }) => `svc:v1:ws_1:keyspaces/${ours.apiId}/keys/*#verify_key`,
      ["ours"],
    ],
    [
      "keyspaces/<keyspace_id>/keys/<key_id>#verify_key",
      ({ ours }) => `svc:v1:ws_1:keyspaces/${ours.apiId}/keys/${ours.keyId}#verify_key`,
      ["ours"],
    ],
  ];
  it.each(forms)(
    "A079, A081: %s: sees what it covers, and nothing of another workspace",
    async (_what, grant, sees) => {
      const made = await world();
      const caller = made.callerOf(grant(made));
      for (const owner of ["ours", "theirs", "foreign"] as const) {
        const answer = await made.verify(made[owner].key, caller);
        if (sees.includes(owner))
          expect(answer).toMatchObject({ valid: true, code: "VALID", keyId: made[owner].keyId, credits: 9 });
        else expect(answer).toEqual(HIDDEN);
      }
    },
  );

  it("A083: a grant for one key covers no other key of that API", async () => {
    const made = await world();
    const { ours, callerOf, verify } = made;
    const sibling = await ours.keyring.createKey({ apiId: ours.apiId });
    const caller = callerOf(`svc:v1:ws_1:keyspaces/${ours.apiId}/keys/${ours.keyId}#verify_key`);
    expect(await verify(sibling.key, caller)).toEqual(HIDDEN);
    expect((await verify(ours.key, caller)).code).toBe("VALID");
  });
});

describe("contract 4.1-3: a key of another API looks like one that is not there", () => {
  it("the same answer, whatever is wrong or right with the key, and whatever is asked", async () => {
    const made = await world();
    const { ours, theirs, callerOf, verify } = made;
    const caller = callerOf(`api.${ours.apiId}.verify_key`);
    const { keyring, apiId } = theirs;
    const hidden = [
      theirs.key,
      (await keyring.createKey({ apiId, enabled: false })).key,
      (await createPastKey(keyring, { apiId, expires: NOON - 1 })).key,
      (await keyring.createKey({ apiId, ipAllowlist: ["192.0.2.1"] })).key,
      (await keyring.createKey({ apiId, credits: { remaining: 0 } })).key,
    ];
    const asks = [
      {},
      { permissions: "documents.read" },
      { permissions: "never.granted" },
      { ratelimits: [{ name: "unknown" }] },
      { credits: { cost: 5 } },
    ];
    for (const ask of asks)
      for (const key of [...hidden, NOBODY_S]) expect(await verify(key, caller, ask)).toEqual(HIDDEN);
  });

  it("A061, ruling A2: nothing is consumed of a hidden key", async () => {
    const made = await world();
    const { ours, theirs, callerOf, verify } = made;
    const before = await left(made, theirs.key);
    for (let i = 0; i < 5; i++)
      await verify(theirs.key, callerOf(`api.${ours.apiId}.verify_key`), { credits: { cost: 2 } });
    expect(await left(made, theirs.key)).toEqual(before);
    expect(before).toEqual([10, 10]);
  });

  it("the outcome event of a hidden key says no more than that of an unknown one", async () => {
    const events: OutcomeEvent[] = [];
    const made = await world({ onOutcome: (event) => events.push(event) });
    const caller = made.callerOf(`api.${made.ours.apiId}.verify_key`);
    await made.verify(made.theirs.key, caller);
    await made.verify(NOBODY_S, caller);
    await made.verifier.close();
    expect(events).toHaveLength(2);
    expect({ ...events[0], duration: 0 }).toEqual({ ...events[1], duration: 0 });
  });

  it("ruling F4: it costs the store no more calls than a key that is not there", async () => {
    const made = await world();
    const caller = made.callerOf(`api.${made.ours.apiId}.verify_key`);
    const callsOf = async (key: string) => {
      const before = { ...made.calls };
      await made.verify(key, caller);
      return Object.entries(made.calls).filter(([name, count]) => count !== before[name]);
    };
    const [hidden, unknown] = [await callsOf(made.theirs.key), await callsOf(NOBODY_S)];
    expect(hidden.map(([name]) => name)).toEqual(unknown.map(([name]) => name));
  });

  it("ruling E4: a pending key gains its digest only through a caller who may see it", async () => {
    const made = await world();
    const { ours, theirs, callerOf, verify, store } = made;
    await theirs.keyring.createMigration({ id: "old", algorithm: "sha512" });
    const text = "legacy_key_1";
    const hash = Buffer.from(await crypto.subtle.digest("SHA-512", new TextEncoder().encode(text))).toString("hex");
    const { migrated } = await theirs.keyring.migrateKeys({
      migrationId: "old",
      apiId: theirs.apiId,
      keys: [{ hash }],
    });
    const digest = async () => (await store.readMany("keys", [migrated[0]!.keyId]))[0]?.digest;
    const stranger = callerOf(`api.${ours.apiId}.verify_key`);
    const foreigner: Caller = { workspaceId: "ws_2", ...createCallerGrants(["api.*.verify_key"], "ws_2") };
    expect(await verify(text, stranger, { migrationId: "old" })).toEqual(HIDDEN);
    expect(await verify(text, foreigner, { migrationId: "old" })).toEqual(HIDDEN);
    expect(await digest()).toBeUndefined();
    expect((await verify(text, callerOf("api.*.verify_key"), { migrationId: "old" })).code).toBe("VALID");
    expect(await digest()).toBeDefined();
    expect(await verify(text, stranger)).toEqual(HIDDEN);
  });
});

describe("contract 4.1-4: a credential without any permission to verify", () => {
  const powerless = [
    [],
    ["api.*.read_key", "api.*.create_key", "rbac.*.verify_key"],
    ["svc:v1:ws_1:keyspaces/*#verify_key"],
    ["svc:v1:ws_2:keyspaces/*/keys/*#verify_key"],
    ["verify_key", "api.verify_key", "api.*.*"],
  ];
  it.each(powerless)(
    "is a 403 for a key that exists and for one that does not, before the store is asked: %j, %j, %j",
    async (...permissions) => {
      const made = await world();
      const caller = made.callerOf(...permissions);
      const before = { ...made.calls };
      const texts = [];
      for (const key of [made.ours.key, made.foreign.key, NOBODY_S]) {
        const { code, status, title, type, detail } = await failure(made.verify(key, caller));
        expect([code, status, title, type]).toEqual(["CALLER_FORBIDDEN", 403, "Forbidden", "forbidden"]);
        texts.push(detail);
      }
      expect(new Set(texts).size).toBe(1);
      expect(made.calls).toEqual(before);
    },
  );

  it("ruling A1: the 403 comes before a body or a query that is not well formed is a 400", async () => {
    const made = await world();
    const [nothing, some] = [made.callerOf(), made.callerOf("api.*.verify_key")];
    for (const [key, more, code, location] of [
      ["", {}, "BAD_REQUEST", "body.key"],
      [made.ours.key, { permissions: "a AND" }, "PERMISSIONS_QUERY_SYNTAX", "body.permissions"],
    ] as const) {
      expect(await failure(made.verify(key, nothing, more))).toMatchObject({
        code: "CALLER_FORBIDDEN",
        detail: "the credential has no permission to verify keys",
      });
      const refused = await failure(made.verify(key, some, more));
      expect([refused.code, refused.errors[0]?.location]).toEqual([code, location]);
    }
  });

  it("the right to verify one key that was deleted since is a right still: NOT_FOUND, not 403", async () => {
    const made = await world();
    const { ours, callerOf, verify } = made;
    const caller = callerOf(`svc:v1:ws_1:keyspaces/${ours.apiId}/keys/${ours.keyId}#verify_key`);
    await ours.keyring.deleteKey({ keyId: ours.keyId });
    expect(await verify(ours.key, caller)).toEqual(HIDDEN);
  });
});

describe("rulings F1, F2: embedded and with a root key", () => {
  it("without a caller the program may see every key", async () => {
    const { verifier, ours, theirs, foreign } = await world();
    for (const { key } of [ours, theirs, foreign]) expect((await verifier.verify({ key })).code).toBe("VALID");
  });

  it("a root key lets in a caller of its workspace, and is itself NOT_FOUND", async () => {
    const { store, clock, ours, theirs, foreign, verifier } = await world();
    const { key } = await ours.keyring.createRootKey({ permissions: [`api.${ours.apiId}.verify_key`] });
    const { authenticate } = createAuthenticator(store, { clock });
    const caller = await authenticate(`Bearer ${key}`);
    const codes = [];
    for (const presented of [ours.key, theirs.key, foreign.key, key])
      codes.push((await verifier.verify({ key: presented }, { caller })).code);
    expect(codes).toEqual(["VALID", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND"]);
  });

  it("a root key is no key where someone imported its hash, found by its digest or by a migration; a key that only begins alike is", async () => {
    const { ours, verifier, store } = await world();
    const { keyring, apiId } = ours;
    const { key: root } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    const { key: alike } = await keyring.createKey({ apiId, prefix: "root" });
    for (const [id, algorithm, hashed] of [
      ["whole", "sha256", root],
      ["last", "prefixed-api-key", root.split("_").at(-1)!],
    ] as const) {
      await keyring.createMigration({ id, algorithm });
      const hash = createHash("sha256").update(hashed).digest("hex");
      const { migrated, failed } = await keyring.migrateKeys({ migrationId: id, apiId, keys: [{ hash }] });
      // What an import can tell from its hash it refuses; a row that another program wrote is no key either.
      expect([migrated.length, failed.length]).toEqual(id === "whole" ? [0, 1] : [1, 0]);
      if (id === "whole") await insertKey(store, apiId, createHash("sha256").update(root).digest("base64"));
      expect((await failure(keyring.whoami({ key: root }))).code).toBe("NOT_FOUND");
      for (const more of [{}, { migrationId: id }])
        expect(await verifier.verify({ key: root, ...more })).toEqual(HIDDEN);
    }
    for (const _ of [1, 2]) expect((await verifier.verify({ key: alike })).code).toBe("VALID");
  });

  it("a disabled workspace: its root key lets in, and its keys are FORBIDDEN (ruling A4)", async () => {
    const { store, clock, ours, verifier } = await world();
    const { key } = await ours.keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    await ours.keyring.updateWorkspace({ enabled: false });
    const caller = await createAuthenticator(store, { clock }).authenticate(`Bearer ${key}`);
    expect((await verifier.verify({ key: ours.key }, { caller })).code).toBe("FORBIDDEN");
  });
});

async function insertKey(store: Store, apiId: string, digest: string): Promise<void> {
  const [api] = await store.readMany("apis", [apiId]);
  const row = { ...keyRow(1), apiId, workspaceId: api!.workspaceId, digest };
  expect(await store.insertKeys([{ row }])).toEqual([true]);
}
