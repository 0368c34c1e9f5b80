/**
 * Remembers what was made last for a record with the same list objects of permissions and roles: tried before a name is made of
 * the record. Knows no engine.
 *
 * Why: a store that shares the lists among its records hands out the same objects again and again. A verification whose record is read
 * from SQLite took 11.8 µs with a name made and looked up each time, and takes 10.3 with a few fields compared instead. Lists that are
 * not frozen may change, so they are not trusted. The obvious twin is the search by name (`prepared-key.test.ts`).
 */
import type { KeyRecord } from "./store.js";

/** The most lists held, and permissions in all of them: 64 lists of 20,000 kept 60 MB alive. */
const HELD = 64;
const HELD_PERMISSIONS = 64_000;

interface Last<T> {
  readonly roles: readonly string[];
  readonly value: T;
}

/**
 * @param find the slow way, which is right for every record
 * @param fits whether a value of a record with the same lists is also that of this record
 */
export function rememberByLists<T>(
  find: (record: KeyRecord) => T,
  fits: (value: T, record: KeyRecord) => boolean,
): (record: KeyRecord) => T {
  const lasts = new Map<readonly string[], Last<T>>();
  let held = 0;
  return (record) => {
    const { permissions, roles } = record;
    const last = lasts.get(permissions);
    if (last !== undefined && last.roles === roles && fits(last.value, record)) return last.value;
    const value = find(record);
    if (!Object.isFrozen(permissions) || !Object.isFrozen(roles)) return value;
    if (lasts.delete(permissions)) held -= permissions.length;
    // A longer list is held alone.
    if (lasts.size >= HELD || held + permissions.length > HELD_PERMISSIONS) {
      lasts.clear();
      held = 0;
    }
    lasts.set(permissions, { roles, value });
    held += permissions.length;
    return value;
  };
}
