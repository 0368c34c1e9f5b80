import { expect, it } from "vitest";
import { createBoundedMap } from "../../../src/stores/codec/bounded-map.js";

it("an entry that is there already is counted once", () => {
  const map = createBoundedMap<string, number>();
  map.set("first", 1, 1);
  for (let i = 0; i < 40; i++) map.set("again", 2, 1_000_000);
  expect([map.get("first"), map.get("again")]).toEqual([1, 2]);
});

it("an entry beyond the bound drops all others", () => {
  const map = createBoundedMap<string, number>();
  map.set("first", 1, 20_000_000);
  map.set("second", 2, 20_000_000);
  expect([map.get("first"), map.get("second")]).toEqual([undefined, 2]);
});
