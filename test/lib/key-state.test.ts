import { expect, it } from "vitest";
import { createKeyring } from "../../src/keyring/keyring.js";
import { keyState } from "../../src/lib/key-state.js";
import { memoryStore } from "../../src/stores/memory.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";

const NOW = 1_700_000_000_000;
const STATES = ["active", "disabled", "expired", "exhausted"] as const;

it.each([
  [{ enabled: true }, "active"],
  [{ enabled: true, expires: NOW, remaining: null }, "active"],
  [{ enabled: true, expires: NOW - 1, remaining: 0 }, "expired"],
  [{ enabled: false, expires: NOW - 1, remaining: 0 }, "disabled"],
  [{ enabled: true, remaining: 0 }, "exhausted"],
] as const)("keyState: of %j it is %s", (facts, state) => expect(keyState(facts, NOW)).toBe(state));

it.each([
  ["memory", () => memoryStore()],
  ["SQLite", () => sqliteStore(":memory:")],
] as const)(
  "searchKeys: the filter finds each key in the state of its row, whoever owns its credits: %s",
  async (_, open) => {
    const store = open();
    const keyring = createKeyring(store, { clock: () => NOW });
    const { apiId } = await keyring.createApi({ name: "docs" });
    const owned = { apiId, externalId: "owner" };
    await keyring.createIdentity({ externalId: "owner" });
    await keyring.updateIdentityCredits({ identity: "owner", operation: "set", value: 0 });
    const none = { credits: { remaining: 0 } };
    const { keyId: shared } = await keyring.createKey(owned);
    for (const one of [
      { apiId },
      { apiId, ...none },
      { ...owned, credits: { remaining: 5 } },
      { ...owned, enabled: false },
    ])
      await keyring.createKey(one);
    await keyring.updateKey({ keyId: (await keyring.createKey(owned)).keyId, expires: NOW - 1 });
    const all = (await keyring.searchKeys()).data;
    const stateOf = ({ credits, ownerCredits, ...key }: (typeof all)[number]) =>
      keyState({ ...key, remaining: (credits ?? ownerCredits)?.remaining }, NOW);
    for (const state of STATES) {
      const found = (await keyring.searchKeys({ state })).data.map(({ keyId }) => keyId);
      expect(found, state).toEqual(all.filter((key) => stateOf(key) === state).map(({ keyId }) => keyId));
      expect(found.length, state).toBeGreaterThan(0);
    }
    expect(await keyring.getKey({ keyId: shared })).toMatchObject({
      creditsFrom: "identity",
      ownerCredits: { remaining: 0 },
    });
    await store.close();
  },
);
