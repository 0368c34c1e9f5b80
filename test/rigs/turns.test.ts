import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createKeyring } from "../../src/keyring/keyring.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { createVerifier } from "../../src/verify/verifier.js";
import { rigFolder } from "./workers.js";

describe("one process that administers and verifies", () => {
  it("awaited changes in a loop leave verifications their turns", async () => {
    const folder = rigFolder();
    const store = sqliteStore(join(folder, "keys.db"), { durability: "process" });
    try {
      const keyring = createKeyring(store);
      const verifier = createVerifier(store);
      const { apiId } = await keyring.createApi({ name: "turns" });
      const { key } = await keyring.createKey({ apiId, credits: { remaining: 1_000 } });
      const MADE = 300;
      let made = 0;
      const answeredAfter = verifier.verify({ key }).then(() => made);
      while (made < MADE) {
        await keyring.createKey({ apiId });
        made++;
      }
      expect(await answeredAfter).toBeLessThan(MADE / 2);
      await verifier.close();
    } finally {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
