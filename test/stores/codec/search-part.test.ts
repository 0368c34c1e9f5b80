/** What SQL stores search, against what a search looks at. */
import { expect, it } from "vitest";
import { createSearch, type SearchedTable } from "../../../src/keyring/search.js";
import { ENTITY_TABLES, encodeEntity, type EntityTable } from "../../../src/stores/codec/entity-codec.js";
import { TABLES_WITH_TEXTS } from "../../../src/stores/codec/search-part.js";

/** The fields of a table that a search looks at; none: it cannot be searched. */
function searchedFields(table: EntityTable): string[] {
  const fields: string[] = [];
  const row = new Proxy({}, { get: (_, name) => void fields.push(String(name)) });
  try {
    createSearch(table as SearchedTable, "text")?.matches(row as never);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  return fields;
}

it("the body of a row is searched exactly where a search looks at a field that the body holds", () => {
  const withTexts = ENTITY_TABLES.filter((table) => {
    const fields = searchedFields(table).filter((field) => field !== "id");
    const row = Object.fromEntries(fields.map((field) => [field, field])) as never;
    return fields.some((field) => field in (JSON.parse(encodeEntity(table, row).body) as object));
  });
  expect(withTexts).toEqual(TABLES_WITH_TEXTS);
  expect(ENTITY_TABLES.filter((table) => searchedFields(table).length > 0)).toEqual([
    "identities",
    "roles",
    "permissions",
    "namespaces",
  ]);
});
