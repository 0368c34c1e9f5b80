/** The state of a key: the function alone, and that rows, filters and verifications agree about it on every store. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { isListedAs, KEY_STATES, type KeyState, keyState, LISTED_STATES } from "../../src/lib/key-state.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { explain } from "../../src/verify/explain.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { runs } from "../runs.js";
import { pglite } from "../stores/postgres/support.js";

const NOW = 1_700_000_000_000;

it.each([
  [{ enabled: true }, "active"],
  [{ enabled: true, expires: NOW, remaining: null }, "active"],
  [{ enabled: true, expires: NOW, rerolledTo: "key_2" }, "active"],
  [{ enabled: true, remaining: 0 }, "exhausted"],
  [{ enabled: true, parentDisabled: true, remaining: 0 }, "forbidden"],
  [{ enabled: true, expires: NOW - 1, parentDisabled: true, remaining: 0 }, "expired"],
  [{ enabled: true, expires: NOW - 1, rerolledTo: "key_2" }, "rotated"],
  [{ enabled: true, ownerExpires: NOW }, "active"],
  [{ enabled: true, ownerExpires: NOW - 1, parentDisabled: true }, "expired"],
  [{ enabled: true, expires: NOW - 1, rerolledTo: "key_2", ownerExpires: NOW - 1 }, "rotated"],
  [{ enabled: false, expires: NOW - 1, rerolledTo: "key_2", remaining: 0 }, "disabled"],
  [{ deleted: true, enabled: false }, "deleted"],
] as const)("keyState: of %j it is %s", (facts, state) => expect(keyState(facts, NOW)).toBe(state));

/** What a verification returns of a key in each state. */
const CODES: Readonly<Record<KeyState, string>> = {
  ...{ deleted: "NOT_FOUND", disabled: "DISABLED", rotated: "EXPIRED", expired: "EXPIRED" },
  ...{ forbidden: "FORBIDDEN", exhausted: "USAGE_EXCEEDED", active: "VALID" },
};

/** What is done to a key, each of these or not. */
interface Made {
  readonly api: "open" | "shut";
  readonly owner: "empty" | "rich" | "ended" | "shut" | undefined;
  readonly credits: number | undefined;
  readonly fate: "none" | "disabled" | "expired" | "rotated" | "overlaps" | "deleted";
}
const histories: fc.Arbitrary<Made> = fc.record({
  api: fc.constantFrom("open", "shut"),
  owner: fc.constantFrom(undefined, "empty", "rich", "ended", "shut"),
  credits: fc.constantFrom(undefined, 0, 5),
  fate: fc.constantFrom("none", "disabled", "expired", "rotated", "overlaps", "deleted"),
});

const postgres = pglite();
const STORES: readonly (readonly [string, () => Store | Promise<Store>])[] = [
  ["memory", memoryStore],
  ["SQLite", () => sqliteStore(":memory:")],
  ["PostgreSQL", async () => (await postgres.open(1))[0]!],
];

/** A key in each state, for runs that are few. */
const EACH: readonly Made[] = (["none", "disabled", "expired", "rotated", "overlaps", "deleted"] as const).flatMap(
  (fate) =>
    (["open", "shut"] as const).map((api) => ({
      api,
      owner: undefined,
      credits: fate === "overlaps" ? 0 : undefined,
      fate,
    })),
);

describe.each(STORES)("the state of a key on %s", (_, open) => {
  it("is that of its row in lists, of the filter that finds it, and of what a verification finds", async () => {
    const store = await open();
    const verifier = createVerifier(store, { clock: () => NOW });
    const seen = new Set<KeyState>();
    let worlds = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(histories, { minLength: 1, maxLength: 5 }), fc.boolean(), async (made, isShut) => {
        const world = ++worlds;
        const of = createKeyring(store, { clock: () => NOW, workspaceId: `ws_${world}` });
        const apis = { open: `api_open${world}`, shut: `api_shut${world}` };
        for (const apiId of Object.values(apis)) await of.createApi({ name: "docs", apiId });
        await of.createIdentity({ externalId: "empty", credits: { remaining: 0 } });
        await of.createIdentity({ externalId: "rich", credits: { remaining: 9 } });
        await of.createIdentity({ externalId: "shut", enabled: false });
        await of.createIdentity({ externalId: "ended" });
        await of.updateIdentity({ identity: "ended", expires: NOW - 1 });
        for (const { api, owner, credits, fate } of made) {
          const { keyId } = await of.createKey({
            apiId: apis[api],
            ...(owner !== undefined && { externalId: owner }),
            ...(credits !== undefined && { credits: { remaining: credits } }),
          });
          if (fate === "disabled") await of.updateKey({ keyId, enabled: false });
          if (fate === "expired") await of.updateKey({ keyId, expires: NOW - 1 });
          if (fate === "rotated") await of.rerollKey({ keyId, expiration: 0 });
          if (fate === "overlaps") await of.rerollKey({ keyId, expiration: 60_000 });
          if (fate === "deleted") await of.deleteKey({ keyId });
        }
        await of.updateApi({ apiId: apis.shut, enabled: false });
        if (isShut) await of.updateWorkspace({ enabled: false });
        const all = [...(await of.searchKeys()).data, ...(await of.searchKeys({ state: "deleted" })).data];
        expect(new Set(all.map(({ keyId }) => keyId)).size).toBe(all.length);
        for (const state of LISTED_STATES) {
          const found = (await of.searchKeys({ state })).data.map((key) => `${key.keyId} ${key.state}`);
          const wanted = all
            .filter((key) => isListedAs(state, key.state, key.rerolledTo))
            .map((key) => `${key.keyId} ${key.state}`);
          expect(found.sort(), state).toEqual(wanted.sort());
        }
        const replaced = (await of.searchKeys({ state: "replaced", order: "made" })).data;
        const isOpen = ({ state, expires = 0 }: (typeof all)[number]) =>
          expires >= NOW && !["deleted", "disabled", "expired"].includes(state);
        const valid = all.filter((key) => key.rerolledTo !== undefined && isOpen(key));
        expect(replaced.map(({ keyId }) => keyId).sort()).toEqual(valid.map(({ keyId }) => keyId).sort());
        for (const { keyId, apiId, state, disabledBy } of all) {
          seen.add(state);
          const parent = isShut ? "workspace" : apiId === apis.shut ? "api" : "identity";
          expect(disabledBy, keyId).toBe(state === "forbidden" ? parent : undefined);
          expect((await of.getKey({ keyId, includeDeleted: true })).state, keyId).toBe(state);
          const { refusal = "VALID", deleted = false } = await explain(verifier, { keyId });
          expect([refusal, deleted], state).toEqual([CODES[state], state === "deleted"]);
        }
      }),
      { numRuns: runs(60), examples: [[[...EACH], false]] },
    );
    await verifier.close();
    await store.close();
    expect([...seen].sort()).toEqual([...KEY_STATES].sort());
  });
});
