/** A limiter over several servers learns which buckets belong together: one verification takes from one shard. */
import { expect, it } from "vitest";
import type { LimitCheck, Limiter } from "../../src/contracts/limiter.js";
import { createKeyring, createVerifier, memoryStore } from "../../src/index.js";

it("a limiter is told the identity as the shard of every bucket, or the key that they are named after", async () => {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const limit = (name: string) => ({ name, limit: 10, duration: 60_000, autoApply: true });
  const { identityId } = await keyring.createIdentity({ externalId: "customer", ratelimits: [limit("shared")] });
  const ratelimits = [limit("own")];
  const owned = await keyring.createKey({ apiId, externalId: "customer", ratelimits });
  const alone = await keyring.createKey({ apiId, ratelimits });
  const later = await keyring.rerollKey({ keyId: alone.keyId, expiration: 60_000 });

  let seen: readonly LimitCheck[] = [];
  const limiter: Limiter = {
    take(checks) {
      seen = checks;
      return checks.map(({ limit: remaining }) => ({ exceeded: false, remaining, reset: 0 }));
    },
  };
  const verifier = createVerifier(store, { limiter });
  const shardsOf = async (key: string) => {
    const asked = [
      { name: "ad hoc", limit: 1, duration: 1_000 },
      { name: "own", limit: 3 },
    ];
    expect((await verifier.verify({ key, ratelimits: asked })).code).toBe("VALID");
    const named = seen.map(({ shard }) => shard);
    expect((await verifier.verify({ key })).code).toBe("VALID");
    return [...new Set([...named, ...seen.map(({ shard }) => shard)])];
  };
  expect(await shardsOf(owned.key)).toEqual([identityId]);
  expect(await shardsOf(alone.key)).toEqual([alone.keyId]);
  expect(await shardsOf(later.key)).toEqual([alone.keyId]);
});
