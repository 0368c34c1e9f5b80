import { describe, expect, it } from "vitest";
import { KEY_FIELDS, type KeyField } from "../../src/contracts/key-fields.js";
import type { ApiRow, IdentityRow } from "../../src/contracts/store.js";
import { toIdentity } from "../../src/lib/identity.js";
import { flatten, identityWallet, type Related, toRecord, toRecordWith } from "../../src/stores/key-record.js";
import { keyRow } from "./suite.js";

const api: ApiRow = {
  id: "api_1",
  workspaceId: "ws_1",
  version: 1,
  name: "docs",
  enabled: true,
  ipAllowlist: [],
  deleted: false,
  createdAt: 0,
};
const names: Pick<Related, "role" | "permission"> = {
  role: (id) =>
    id.startsWith("role_")
      ? { id, workspaceId: "ws_1", version: 1, name: id.slice(5), permissions: ["p_b", "p_a", "gone"] }
      : undefined,
  permission: (id) => (id.startsWith("p_") ? id.slice(2) : undefined),
};
const related = (over: Partial<Related> = {}): Related => ({
  api,
  workspaceEnabled: true,
  identity: undefined,
  identityRef: undefined,
  ...names,
  ...over,
});

describe("toRecord", () => {
  it("what a key does not have is not there", () => {
    const required = (Object.keys(KEY_FIELDS) as (keyof typeof KEY_FIELDS)[]).filter((name) => {
      const { record, absent }: KeyField = KEY_FIELDS[name];
      return record !== undefined && absent !== true;
    });
    expect(Object.keys(toRecord(7, keyRow(1), related())!).sort()).toEqual([...required, "grantIds"].sort());
  });

  it("what it has is there", () => {
    const fields = { name: "n", meta: { a: 1 }, expires: 0, refill: { interval: "daily", amount: 1 } as const };
    expect(toRecord(7, keyRow(1, fields), related())).toMatchObject({ ref: 7, keyId: "key_000001", ...fields });
  });

  it("grants are those that the store has: of a store without any, the key draws on its own account alone", () => {
    const row = keyRow(1, { hasCredits: true, hasGrants: true });
    expect(toRecord(7, row, related())).not.toHaveProperty("wallets");
    expect(toRecord(7, row, related({ creditGrants: () => [] }))).not.toHaveProperty("wallets");
    const grant = {
      ...{ id: "grant_1", workspaceId: "ws_1", version: 1, accountId: row.id, grantId: "order 1", amount: 5 },
      ...{ priority: 7, createdAt: 3, hasCredits: true, generation: 1 },
    };
    const record = toRecord(7, row, related({ creditGrants: () => [{ ref: 9, row: grant }] }));
    const granted = { ref: 9, generation: 1, grantId: "order 1", priority: 7, createdAt: 3 };
    const accounts = [expect.objectContaining({ ref: 7 }), granted];
    expect(record?.wallets).toEqual([{ owner: "key", accounts }]);
  });

  it("draws on its identity's account if that has credits, which is then named", () => {
    const owner = { id: "id_1", workspaceId: "ws_1", version: 1, externalId: "user_1", ratelimits: [], createdAt: 0 };
    const identity = { ...owner, hasCredits: true } as unknown as IdentityRow;
    const key = keyRow(1, { identityId: "id_1" });
    const record = toRecord(1, key, related({ identity, identityRef: -3 }));
    expect(record).toMatchObject({ hasCredits: true, generation: 0, creditsFrom: "identity", account: { ref: -3 } });
    const rerolled = toRecord(
      1,
      keyRow(1, { identityId: "id_1", accountId: "key_0" }),
      related({ identity, identityRef: -3 }),
    );
    expect(rerolled?.account).toEqual({ ref: -3, id: "key_0" });
    expect(() => toRecord(1, key, related({ identity }))).toThrow(TypeError);
    const main = { ref: -3, generation: 0, priority: 100, createdAt: 0 };
    expect(identityWallet(identity, -3, () => [])).toEqual({ owner: "identity", accounts: [main] });
    expect(identityWallet({ ...identity, hasCredits: false }, -3, () => [])).toBeUndefined();
  });

  it("allow-lists that are not empty, the key's and the API's", () => {
    const of = (key: string[], ofApi: string[]) =>
      toRecord(1, keyRow(1, { ipAllowlist: key }), related({ api: { ...api, ipAllowlist: ofApi } }))?.ipAllowlists;
    expect(of([], [])).toEqual([]);
    expect(of(["1"], [])).toEqual([["1"]]);
    expect(of([], ["2"])).toEqual([["2"]]);
    expect(of(["1"], ["2"])).toEqual([["1"], ["2"]]);
  });

  it("suspended when its API or workspace is disabled", () => {
    expect(toRecord(1, keyRow(1), related())?.parentDisabled).toBe(false);
    expect(toRecord(1, keyRow(1), related({ workspaceEnabled: false }))?.parentDisabled).toBe(true);
    expect(toRecord(1, keyRow(1), related({ api: { ...api, enabled: false } }))?.parentDisabled).toBe(true);
  });

  it("clause 18: nothing of deleted keys and of keys without an API; their grants are not asked for", () => {
    const never = () => {
      throw new Error("asked");
    };
    expect(toRecordWith(1, keyRow(1, { deleted: true }), related(), never)).toBeUndefined();
    expect(toRecordWith(1, keyRow(1), related({ api: undefined }), never)).toBeUndefined();
    expect(toRecordWith(1, keyRow(1), related({ api: { ...api, deleted: true } }), never)).toBeUndefined();
  });

  it("pending without a native digest", () => {
    const { digest: _, ...row } = keyRow(1);
    expect(toRecord(1, row, related())?.unadopted).toBe(true);
  });
});

describe("grantIds", () => {
  it("are those of the row, known or not, and those of the permissions of its roles", () => {
    const role = { ...names.role("role_z")!, permissions: ["p_of_z", "p_a"] };
    const row = keyRow(1, { permissions: ["p_a", "gone"], roles: ["role_z", "role_gone"] });
    const found = toRecord(1, row, related({ role: (id) => (id === "role_z" ? role : undefined) }));
    expect(found?.grantIds).toEqual(["gone", "p_a", "p_of_z", "role_gone", "role_z"]);
    expect(toRecordWith(1, row, related(), () => ({ permissions: [], roles: [] }))).not.toHaveProperty("grantIds");
  });
});

describe("flatten", () => {
  it("names of roles and permissions, sorted, each once; what was deleted is passed over", () => {
    expect(
      flatten({ permissions: ["p_c", "p_a", "gone", "p_c"], roles: ["role_z", "role_y", "role_z", "gone"] }, names),
    ).toEqual({
      permissions: ["a", "b", "c"],
      roles: ["y", "z"],
    });
    expect(flatten({ permissions: [], roles: [] }, names)).toEqual({ permissions: [], roles: [] });
  });
});

describe("toIdentity", () => {
  it("contract 2.2: meta and limits only where there are any", () => {
    const row: IdentityRow = { id: "id_1", workspaceId: "ws_1", version: 3, externalId: "user", ratelimits: [] };
    const limit = { id: "rl_00000001", name: "requests", limit: 1, duration: 1000, autoApply: true };
    expect(toIdentity(row)).toStrictEqual({ id: "id_1", externalId: "user" });
    expect(toIdentity({ ...row, meta: {}, ratelimits: [limit] })).toStrictEqual({
      id: "id_1",
      externalId: "user",
      meta: {},
      ratelimits: [limit],
    });
  });
});
