/** listAudit: what a row says besides its entry: who acted by name, what the ids are, and that an import is one. */
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Caller, Resource } from "../../src/contracts/caller.js";
import type { Store } from "../../src/contracts/store.js";
import { createKeyring, memoryStore } from "../../src/index.js";
import { contextOfKeyring } from "../../src/keyring/keyring.js";
import { listAudit } from "../../src/keyring/list-audit.js";
import { updateApi } from "../../src/keyring/apis.js";
import { updateKey } from "../../src/keyring/keys/update-key.js";
import { runCall } from "../../src/keyring/operation.js";
import { sqliteStore } from "../../src/stores/sqlite/index.js";
import { pglite } from "../stores/postgres/support.js";

const { open } = pglite();
const NOON = Date.UTC(2026, 10, 10, 12);
const stores: Readonly<Record<string, () => Promise<Store>>> = {
  memory: () => Promise.resolve(memoryStore()),
  SQLite: () => Promise.resolve(sqliteStore(":memory:")),
  PostgreSQL: async () => (await open(1))[0]!,
};

afterEach(() => void vi.restoreAllMocks());

describe.each(Object.keys(stores))("listAudit on %s", (name) => {
  it("names the root key that acted, finds it by a part of its name or id, and tells what the ids are", async () => {
    const store = await stores[name]!();
    let now = NOON;
    const keyring = createKeyring(store, { clock: () => (now += 1_000), actor: "Gatekeeper script" });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { keyId } = await keyring.createKey({ apiId });
    const { rootKeyId } = await keyring.createRootKey({ name: "gateway", permissions: ["api.*.update_key"] });
    const may = () => true;
    const caller = { kind: "rootKey", id: rootKeyId, workspaceId: "ws_default", may, mayAny: may } as Caller;
    const call = { context: contextOfKeyring(keyring)!, operation: "updateKey", caller };
    await runCall(call, (context) => updateKey.act(context, { keyId, name: "renamed" }));
    const all = (await keyring.listAudit()).data;
    expect(all.map(({ operation, kinds, actorName }) => [operation, kinds, actorName])).toEqual([
      ["updateKey", ["key"], "gateway"],
      ["createRootKey", ["rootKey"], undefined],
      ["createKey", ["key"], undefined],
      ["createApi", ["api"], undefined],
    ]);
    const found = async (actorSearch: string, limit = 100) =>
      (await keyring.listAudit({ actorSearch, limit })).data.map(({ operation }) => operation);
    expect(await found("GATEW")).toEqual(["updateKey"]);
    expect(await found(rootKeyId.slice(3, 12))).toEqual(["updateKey"]);
    expect(await found("gate")).toHaveLength(4);
    expect(await found("gate", 3)).toHaveLength(3);
    expect(await found("nobody")).toEqual([]);
    const { pagination } = await keyring.listAudit({ actorSearch: "gate", limit: 3 });
    const rest = await keyring.listAudit({ actorSearch: "gate", limit: 3, cursor: pagination.cursor! });
    expect(rest.data.map(({ operation }) => operation)).toEqual(["createApi"]);
    const between = await keyring.listAudit({ from: all[2]!.time, to: all[0]!.time });
    expect(between.data.map(({ operation }) => operation)).toEqual(["createRootKey", "createKey"]);
    await store.close();
  });

  it("names root keys, and finds them by name, for callers that may read them; others have their ids", async () => {
    const store = await stores[name]!();
    const keyring = createKeyring(store, { clock: () => NOON });
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { rootKeyId: id } = await keyring.createRootKey({ name: "gateway", permissions: ["api.*.update_key"] });
    const calling = (grants: readonly string[]) => {
      const may = (action: string, { type, id: one = "*" }: Resource) => grants.includes(`${type}.${one}.${action}`);
      const caller = { kind: "rootKey", id, workspaceId: "ws_default", may, mayAny: () => true } as Caller;
      return { context: contextOfKeyring(keyring)!, operation: "any", caller };
    };
    await runCall(calling([]), (context) => updateApi.act(context, { apiId, name: "renamed" }));
    const read = async (grants: readonly string[], body: { actorSearch?: string } = {}) =>
      (await runCall(calling(grants), (context) => listAudit.act(context, body))).data
        .filter(({ actorKind }) => actorKind === "rootKey")
        .map(({ actor, actorName }) => [actor, actorName]);
    const all = ["workspace.*.read_audit", "workspace.*.read_root_key"];
    const trail = ["workspace.*.read_audit"];
    expect(await read(all)).toEqual([[id, "gateway"]]);
    expect(await read(all, { actorSearch: "gate" })).toEqual([[id, "gateway"]]);
    expect(await read(trail)).toEqual([[id, undefined]]);
    expect(await read(trail, { actorSearch: "gate" })).toEqual([]);
    expect(await read(trail, { actorSearch: id.slice(0, 9) })).toEqual([[id, undefined]]);
    await store.close();
  });

  it("an import is one row, whatever the page; another one, or one long after, is a row of its own", async () => {
    const store = await stores[name]!();
    let now = NOON;
    const keyring = createKeyring(store, { clock: () => now, actor: "admin" });
    const { apiId } = await keyring.createApi({ apiId: "api_documents_given", name: "documents" });
    const { migrationId } = await keyring.createMigration({ algorithm: "sha256", id: "mig_2019" });
    let n = 0;
    const batch = async (externalId: string) => {
      now += 1_000;
      const keys = [0, 1].map(() => ({ hash: (++n).toString(16).padStart(64, "0"), externalId }));
      await keyring.migrateKeys({ migrationId, apiId, keys });
    };
    for (const externalId of ["a", "a", "b"]) await batch(externalId);
    now += 3_600_000;
    for (const externalId of ["b", "b"]) await batch(externalId);
    // A page ends after 80 ms, which a busy machine takes for a few entries on PostgreSQL.
    vi.spyOn(performance, "now").mockReturnValue(0);
    for (const limit of [1, 2, 100]) {
      const rows = [];
      for (let cursor: string | undefined; ;) {
        const page = await keyring.listAudit({ limit, ...(cursor !== undefined && { cursor }) });
        rows.push(...page.data);
        cursor = page.pagination.cursor;
        if (cursor === undefined) break;
      }
      expect(rows.map(({ operation, count, entries, since }) => [operation, count, entries, since])).toEqual([
        ["migrateKeys", 4, 2, now - 1_000],
        ["migrateKeys", 6, 5, NOON + 1_000],
        ["createMigration", 1, undefined, undefined],
        ["createApi", 1, undefined, undefined],
      ]);
      expect(rows.map(({ kinds }) => kinds)).toEqual([
        ["migration", "api"],
        ["migration", "api"],
        ["migration"],
        ["api"],
      ]);
    }
    await store.close();
  });
});
