import { describe, expect, it } from "vitest";
import { createRatelimits } from "../../../src/keyring/ratelimits/create-ratelimits.js";
import { memoryStore } from "../../../src/stores/memory.js";
import { failure, limit, world } from "../support.js";

describe("names and descriptions of new rows", () => {
  it.each(["\n", "\r", "\0", "\u001b", "\u007f", "\u0085", "\u2028", "\u2029"])(
    "hold no control character or line separator: %j",
    async (character) => {
      const { keyring, apiId, create } = await world();
      const text = `two${character}lines`;
      const { keyId } = await create();
      const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
      const keys = [{ hash: "a".repeat(64), name: text }];
      const ratelimits = createRatelimits(memoryStore());
      const override = { namespace: "email", identifier: "user_1", limit: 10, duration: 60_000 };
      const check = { ...override, cost: 0 };
      const acts: [string, () => Promise<unknown>][] = [
        ["body.name", () => keyring.createApi({ name: text })],
        ["body.name", () => keyring.updateApi({ apiId, name: text })],
        ["body.name", () => keyring.createKey({ apiId, name: text })],
        ["body.name", () => keyring.updateKey({ keyId, name: text })],
        ["body.ratelimits[0].name", () => keyring.createKey({ apiId, ratelimits: [limit(text)] })],
        ["body.name", () => keyring.createRole({ name: text })],
        ["body.description", () => keyring.createRole({ name: "role", description: text })],
        ["body.name", () => keyring.createPermission({ name: text, slug: "a.b" })],
        ["body.description", () => keyring.createPermission({ name: "a", slug: "a.b", description: text })],
        ["body.name", () => keyring.createRootKey({ name: text, permissions: [] })],
        ["body.keys[0].name", () => keyring.migrateKeys({ migrationId, apiId, keys })],
        ["body.name", () => ratelimits.createNamespace({ name: text })],
        ["body.namespace", () => ratelimits.limit({ ...check, namespace: text })],
        ["body[1].namespace", () => ratelimits.multiLimit([check, { ...check, namespace: text }])],
        ["body.namespace", () => ratelimits.setOverride({ ...override, namespace: text })],
      ];
      for (const [location, act] of acts)
        expect((await failure(act())).errors.map((problem) => problem.location)).toEqual([location]);
      expect((await ratelimits.listNamespaces()).data).toEqual([]);
    },
  );

  it("T14: no new permission is called as an operator of queries is; parts of names may be", async () => {
    const { keyring, create } = await world();
    for (const slug of ["AND", "or", "And"]) {
      expect((await failure(keyring.createPermission({ name: "a", slug }))).errors[0]?.location).toBe("body.slug");
      expect((await failure(create({ permissions: [slug] }))).errors[0]?.location).toBe("body.permissions[0]");
    }
    for (const slug of ["android", "a.AND", "or.b", "oR_"]) await keyring.createPermission({ name: "a", slug });
  });
});
