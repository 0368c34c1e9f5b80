/** A table that packs its values, and before it the hot row of those asked for most lately. Knows no keys. */
import { NONE } from "../lib/fingerprint-index.js";
import { TextTag } from "../lib/fingerprint.js";
import { type Drawers, type Shelf, TagTable } from "./fingerprint-cache.js";
import { HotRow } from "./hot-tier.js";

/**
 * A value moves up when it is asked for twice within this many unpackings. Where any of a million may come next, almost none does:
 * to move each one up, and another down, would be for nothing.
 */
const LATELY = 65_536;
const EPOCHS = 255;

/** @param size the most values kept, ≥ 1 */
export function twoRows<T>(size: number, drawers: Drawers<T>, tag = new TextTag()): Shelf<T> {
  const hot = new HotRow<T>();
  const table = new TagTable<T>(size, drawers, tag, hot);
  let unpacked = 0;
  let epoch = 1;

  const wasSeen = (entry: number): boolean => {
    const lately = table.mark(entry, epoch) === epoch;
    if (++unpacked % LATELY === 0) epoch = (epoch % EPOCHS) + 1;
    return lately;
  };
  return {
    get(text) {
      if (!tag.read(text)) return undefined;
      const { one, two, three } = tag;
      const near = hot.get(one, two, three);
      if (near !== undefined) return near;
      const entry = table.find(one, two, three);
      if (entry === NONE) return undefined;
      const value = drawers.get(entry);
      if (wasSeen(entry)) hot.add(one, two, three, value);
      return value;
    },
    set: (text, name, value) => table.set(text, name, value),
    delete: (name) => table.delete(name),
    clear() {
      table.clear();
      hot.clear();
    },
  };
}
