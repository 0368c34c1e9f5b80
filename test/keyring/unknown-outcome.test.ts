/** A store that fails after a write: no operation may read as if nothing had been changed. */
import { describe, expect, it } from "vitest";
import { createKeyring, isKeystileError, KeystileError, memoryStore, type Store } from "../../src/index.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { pglite } from "../stores/postgres/support.js";
import { emptyFiles } from "../stores/sqlite/support.js";
import { OPERATIONS, READING, stageOperations } from "./writing-operations.js";

const path = await emptyFiles();
const postgres = pglite();
const WRITES = new Set<string>(["write", "insertKeys"]);

/** A store that is out of reach once so many writes were made. */
function cutAfter(store: Store, writes: number) {
  let made = 0;
  const methods = Object.entries(store).map(([name, method]) => [
    name,
    typeof method !== "function" || name === "subscribe"
      ? method
      : async (...given: unknown[]) => {
          if (made >= writes) throw new KeystileError("STORE_UNAVAILABLE", "the database server cannot be reached");
          const result = await (method as (...given: unknown[]) => unknown)(...given);
          if (WRITES.has(name) && result !== "conflict" && result !== "taken") made++;
          return result;
        },
  ]);
  return { store: Object.fromEntries(methods) as Store, made: () => made };
}

it("every operation of a keyring is looked at", () => {
  const writing = Object.keys(createKeyring(memoryStore())).filter((name) => !READING.test(name));
  expect(writing.filter((name) => !Object.hasOwn(OPERATIONS, name))).toEqual([]);
});

const ALL = Object.keys(OPERATIONS);
/** On PostgreSQL, where each world takes long, those that write more than once. */
const LONG = ["createKey", "updateKey", "deleteIdentity", "migrateKeys", "forOwner.rotate", "forOwner.revokeAll"];

describe.each<[string, () => Store | Promise<Store>, readonly string[]]>([
  ["memory", memoryStore, ALL],
  ["SQLite", () => sqliteStore(path()), ALL],
  ["PostgreSQL", async () => (await postgres.open(1))[0]!, LONG],
])("a store that fails after a write, over %s", (_, open, names) => {
  it.each(names)("%s responds, or says outcomeUnknown", async (name) => {
    for (let writes = 1; ; writes++) {
      const real = await open();
      const staged = await stageOperations(real);
      const { store, made } = cutAfter(real, writes);
      try {
        await OPERATIONS[name]!(store, staged);
        // Not one write more: there was nothing left to fail.
        if (made() < writes) return;
      } catch (error) {
        expect(isKeystileError(error) && { code: error.code, outcomeUnknown: error.outcomeUnknown }).toEqual({
          code: "STORE_UNAVAILABLE",
          outcomeUnknown: true,
        });
      } finally {
        await real.close();
      }
    }
  });

  it("deleteIdentity: of its keys some are disabled by then, and all once it is asked again", async () => {
    const real = await open();
    await stageOperations(real);
    const keyring = createKeyring(real);
    const disabled = async () => (await keyring.searchKeys({ externalId: "ann", state: "disabled" })).data.length;
    const request = { identity: "ann", keys: "disable" } as const;
    await expect(createKeyring(cutAfter(real, 1).store).deleteIdentity(request)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcomeUnknown: true,
      message: expect.stringContaining("had been written"),
    });
    expect(await disabled()).toBe(1);
    expect(await keyring.deleteIdentity(request)).toEqual({});
    expect((await keyring.searchKeys({ state: "disabled" })).data).toHaveLength(3);
    await real.close();
  });

  it("credits: the balance in the response is that of the write", async () => {
    const real = await open();
    const { keyId } = await stageOperations(real);
    const change = { operation: "increment", value: 5 } as const;
    expect(await createKeyring(cutAfter(real, 1).store).updateCredits({ keyId, ...change })).toEqual({ remaining: 15 });
    expect(await createKeyring(cutAfter(real, 1).store).updateIdentityCredits({ identity: "ann", ...change })).toEqual({
      remaining: 15,
    });
    await real.close();
  });
});
