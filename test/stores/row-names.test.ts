/** Which rows a list shows, and which names are unique. */
import { describe, expect, it } from "vitest";
import type { ApiRow, KeyRow, NamedTable } from "../../src/contracts/store.js";
import { encodeEntity, ENTITY_TABLES } from "../../src/stores/codec/entity-codec.js";
import { listed, nameOf, uniqueOf } from "../../src/stores/row-names.js";

const api = { id: "api_2", workspaceId: "ws_1", deleted: false } as ApiRow;
const key = { ...api, id: "key_2", apiId: "api_2", identityId: "id_2" } as unknown as KeyRow;
const query = { workspaceId: "ws_1", limit: 10 };

describe("listed", () => {
  it("shows rows of the workspace that are not deleted, after the cursor", () => {
    expect(listed(api, query)).toBe(true);
    expect(listed(api, { ...query, after: "api_1" })).toBe(true);
    expect(listed(api, { ...query, after: "api_2" })).toBe(false);
    expect(listed({ ...api, deleted: true }, query)).toBe(false);
    expect(listed(api, { ...query, workspaceId: "ws_2" })).toBe(false);
  });

  it("shows keys of the API and of the identity that the query names, overrides of its namespace", () => {
    expect(listed(key, { ...query, apiId: "api_2", identityId: "id_2" })).toBe(true);
    expect(listed(key, { ...query, apiId: "api_1" })).toBe(false);
    expect(listed(key, { ...query, identityId: "id_1" })).toBe(false);
    expect(listed(key, { ...query, namespaceId: "ns_1" })).toBe(false);
  });
});

describe("uniqueOf", () => {
  it("has the name that SQL stores keep as unique, of every table with names", () => {
    const fields = { name: "n", slug: "s", externalId: "e", digest: "d", namespaceId: "ns", identifier: "i" };
    const row = { id: "an_id", workspaceId: "ws_1", version: 0, ...fields } as never;
    for (const table of ENTITY_TABLES) {
      const { name } = encodeEntity(table, row);
      const names = uniqueOf(table, row).filter((text) => text.startsWith(`${table} `));
      expect(names, table).toEqual(name === null ? [] : [nameOf(table as NamedTable, "ws_1", name)]);
    }
  });
});
