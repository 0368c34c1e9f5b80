/** Under the fake timers of a program's tests every call settles: whatever a call waits for was captured at load. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createConsole } from "../../../src/console/index.js";
import { createHandler } from "../../../src/http/index.js";
import { createKeyring, createVerifier } from "../../../src/index.js";
import { pglite } from "./support.js";

const { open } = pglite();

describe("fake timers of a program's tests", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("PostgreSQL spends, imports, the service and the console settle", { timeout: 30_000 }, async () => {
    const [store] = await open(1);
    const keyring = createKeyring(store!);
    const { apiId } = await keyring.createApi({ name: "docs" });
    const { key } = await keyring.createKey({ apiId, credits: { remaining: 2 } });
    const verifier = createVerifier(store!);
    expect(await verifier.verify({ key })).toMatchObject({ code: "VALID", credits: 1 });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256" });
    const keys = ["a", "b"].map((digit) => ({ hash: digit.repeat(64) }));
    expect((await keyring.migrateKeys({ migrationId, apiId, keys })).migrated).toHaveLength(2);
    const { key: rootKey } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
    const answer = createHandler(store!);
    const headers = { authorization: `Bearer ${rootKey}`, "content-type": "application/json" };
    const request = new Request("http://a/v2/keys.verifyKey", {
      method: "POST",
      headers,
      body: JSON.stringify({ key }),
    });
    expect((await answer(request)).status).toBe(200);
    const pages = createConsole(store!);
    expect((await pages(new Request("http://a/sign-in"))).status).toBe(200);
    await pages.close();
    await answer.close();
    await verifier.close();
    await store!.close();
  });
});
