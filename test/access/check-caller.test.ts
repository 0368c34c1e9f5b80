import { describe, expect, it } from "vitest";
import { strictCaller } from "../../src/access/check-caller.js";
import type { Caller } from "../../src/contracts/caller.js";
import { createHandler } from "../../src/http/index.js";
import { createKeyring, createRatelimits, createVerifier, memoryStore } from "../../src/index.js";

const callerThat = (answer: () => unknown): Caller =>
  ({ workspaceId: "ws_default", may: answer, mayAny: answer }) as never;

async function world() {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  return { store, keyring, apiId, verifier: createVerifier(store), ...(await keyring.createKey({ apiId })) };
}

describe("a caller of the program's own", () => {
  it.each([
    ["a promise of false", () => Promise.resolve(false)],
    ["a promise of true", () => Promise.resolve(true)],
    ["a text", () => "yes"],
    ["1", () => 1],
    ["nothing", () => undefined],
  ])("contract 4.1-4: one that answers with %s is let in nowhere", async (_, answer) => {
    const { store, keyring, apiId, verifier, key, keyId } = await world();
    const caller = callerThat(answer);
    const forbidden = { code: "CALLER_FORBIDDEN" };
    await expect(verifier.verify({ key }, { caller })).rejects.toMatchObject(forbidden);
    const take = { namespace: "email", identifier: "user_1", limit: 1, duration: 1_000 };
    await expect(createRatelimits(store).limit(take, { caller })).rejects.toMatchObject(forbidden);
    const handler = createHandler({
      verifier,
      keyring,
      authenticator: { authenticate: () => Promise.resolve(caller as never), close: () => undefined },
    });
    for (const [operation, body] of Object.entries({
      "keys.verifyKey": { key },
      "keys.getKey": { keyId },
      "keys.createKey": { apiId },
      "apis.createApi": { name: "reports" },
      "permissions.createRole": { name: "editor" },
      "keys.whoami": { key },
    })) {
      const headers = { "content-type": "application/json", authorization: "Bearer any" };
      const request = new Request(`http://keys.test/v2/${operation}`, {
        method: "POST",
        headers,
        body: JSON.stringify(body),
      });
      expect([operation, (await handler(request)).status]).toEqual([operation, 403]);
    }
  });

  it("contract 4.1-3: one that may verify keys at all, but answers for this one with a promise, does not see it", async () => {
    const { verifier, key } = await world();
    const caller = { ...callerThat(() => Promise.resolve(true)), mayAny: () => true };
    expect((await verifier.verify({ key }, { caller })).code).toBe("NOT_FOUND");
    expect((await verifier.verify({ key }, { caller: callerThat(() => true) })).code).toBe("VALID");
  });

  it("has a workspace, or the error names where it is missing", () => {
    for (const workspaceId of [undefined, "", 1, null])
      expect(() => strictCaller({ ...callerThat(() => true), workspaceId }, "context.caller")).toThrow(
        /^context\.caller\.workspaceId /,
      );
  });

  it("is asked with itself as `this`, and its workspace is read once", () => {
    let reads = 0;
    class Own {
      get workspaceId() {
        reads++;
        return "ws_default";
      }
      #actions = new Set(["verify_key"]);
      may(action: string) {
        return this.#actions.has(action);
      }
      mayAny(action: string) {
        return this.may(action);
      }
    }
    const caller = strictCaller(new Own(), "caller");
    expect([caller.may("verify_key", { type: "api" }), caller.mayAny("read_key", "api")]).toEqual([true, false]);
    expect([caller.workspaceId, caller.workspaceId, reads]).toEqual(["ws_default", "ws_default", 1]);
  });
});
