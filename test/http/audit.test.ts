/** The audit trail of the service: the caller is the actor. */
import { describe, expect, it } from "vitest";
import type { AuditEntry } from "../../src/contracts/audit.js";
import { createHandler } from "../../src/http/index.js";
import { createKeyring, createVerifier, memoryStore } from "../../src/index.js";
import { HOSTS, NOON, world } from "./support.js";

describe.each(HOSTS)("audit trail of the service (%s)", (host) => {
  it("names the root key that called, of every workspace, and none of its text", async () => {
    const store = memoryStore();
    const entries: AuditEntry[] = [];
    const { keyring, apiId, call, rootKey, as, close } = await world({
      host,
      store,
      onAudit: (one) => entries.push(one),
    });
    const other = createKeyring(store, { workspaceId: "ws_2" });
    const theirs = await other.createRootKey({ permissions: ["rbac.*.create_role"] });
    const { rootKeyId } = (await keyring.listRootKeys()).data[0]!;
    const made = await call("keys.createKey", { apiId, name: "mine" });
    await call("keys.updateKey", { keyId: made.body.data.keyId, name: "yours" });
    await call("keys.getKey", { keyId: made.body.data.keyId });
    await call("keys.verifyKey", { key: made.body.data.key });
    await call("ratelimit.limit", { namespace: "email", identifier: "a", limit: 5, duration: 60_000 });
    await call("ratelimit.limit", { namespace: "email", identifier: "a", limit: 5, duration: 60_000 });
    expect((await as(theirs.key)("permissions.createRole", { name: "reader" })).status).toBe(200);
    expect((await as(theirs.key)("permissions.createPermission", { name: "p", slug: "p" })).status).toBe(403);
    await close();
    const seen = entries.map(({ workspaceId, actor, operation, fields }) => [workspaceId, actor, operation, fields]);
    expect(seen).toEqual([
      ["ws_default", rootKeyId, "createKey", []],
      ["ws_default", rootKeyId, "updateKey", ["name"]],
      ["ws_default", rootKeyId, "limit", []],
      ["ws_2", theirs.rootKeyId, "createRole", []],
    ]);
    expect(entries[0]).toMatchObject({ time: NOON, actorKind: "rootKey", ids: [made.body.data.keyId] });
    for (const secret of [rootKey, theirs.key, made.body.data.key])
      expect(JSON.stringify(entries)).not.toContain(secret);
  });
});

describe("audit trail of the service: its listener", () => {
  it("a fault of it fails no request, and is counted in the metrics", async () => {
    const onAudit = () => Promise.reject(new Error("gone"));
    const { call, send, close } = await world({ metrics: true, onAudit, audit: { queue: 10 } });
    expect((await call("permissions.createRole", { name: "reader" })).status).toBe(200);
    await close();
    expect((await send("/metrics", { method: "GET" })).text).toContain("\nkeystile_audits_dropped_total 1\n");
    const quiet = await world({ metrics: true });
    expect((await quiet.send("/metrics", { method: "GET" })).text).not.toContain("audits_dropped");
    await quiet.close();
  });

  it("with parts it is the keyring's, which the service and its rate limits share", async () => {
    const store = memoryStore();
    const entries: AuditEntry[] = [];
    const keyring = createKeyring(store, { onAudit: (entry) => entries.push(entry) });
    const verifier = createVerifier(store);
    const { key, rootKeyId } = await keyring.createRootKey({
      permissions: ["ratelimit.*.create_namespace", "ratelimit.*.limit", "rbac.*.create_role"],
    });
    const handler = createHandler({ verifier, keyring });
    const post = (name: string, body: object) =>
      handler(
        new Request(`http://localhost/v2/${name}`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify(body),
        }),
      );
    const limit = { namespace: "email", identifier: "a", limit: 5, duration: 60_000 };
    for (const [name, body] of [
      ["ratelimit.limit", limit],
      ["permissions.createRole", { name: "reader" }],
    ] as const)
      expect((await post(name, body)).status).toBe(200);
    await keyring.createRole({ name: "writer" });
    await keyring.close();
    expect(entries.map(({ actorKind, actor, operation }) => [actorKind, actor, operation])).toEqual([
      ["program", undefined, "createRootKey"],
      ["rootKey", rootKeyId, "limit"],
      ["rootKey", rootKeyId, "createRole"],
      ["program", undefined, "createRole"],
    ]);
    expect(() => createHandler({ verifier, keyring }, { onAudit: () => undefined })).toThrow(/options\.onAudit/);
    await verifier.close();
  });
});
