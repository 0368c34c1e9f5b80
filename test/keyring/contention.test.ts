import { describe, expect, it } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring } from "../../src/keyring/keyring.js";
import { createRatelimits } from "../../src/keyring/ratelimits/create-ratelimits.js";
import { memoryStore } from "../../src/stores/memory.js";

/** A store whose next write another writer beats to it (port clause 13). */
function contended() {
  const inner = memoryStore();
  const state = { refusals: 0 };
  const store: Store = {
    ...inner,
    write(writes) {
      if (state.refusals === 0) return inner.write(writes);
      state.refusals--;
      return "conflict";
    },
  };
  return { store, state };
}

describe("a write that another writer came before is read and written again", () => {
  it("updateRootKey and deleteRootKey", async () => {
    const { store, state } = contended();
    const keyring = createKeyring(store);
    const { rootKeyId } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    state.refusals = 2;
    await keyring.updateRootKey({ rootKeyId, name: "gateway" });
    expect(state.refusals).toBe(0);
    expect((await keyring.listRootKeys()).data.map(({ name }) => name)).toEqual(["gateway"]);
    state.refusals = 2;
    await keyring.deleteRootKey({ rootKeyId });
    expect((await keyring.listRootKeys()).data).toEqual([]);
  });

  it("setOverride and deleteOverride", async () => {
    const { store, state } = contended();
    const ratelimits = createRatelimits(store);
    const place = { namespace: "email", identifier: "user_1" };
    await ratelimits.createNamespace({ name: "email" });
    for (const limit of [5, 6]) {
      state.refusals = 2;
      await ratelimits.setOverride({ ...place, limit, duration: 60_000 });
      expect((await ratelimits.getOverride(place)).limit).toBe(limit);
    }
    state.refusals = 2;
    await ratelimits.deleteOverride(place);
    await expect(ratelimits.getOverride(place)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});
