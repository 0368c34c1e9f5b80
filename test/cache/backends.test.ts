import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CacheBackend, digestBackend, withTtl } from "../../src/cache/cache-backend.js";
import { type CachedKey, createPreparer } from "../../src/cache/cached-key.js";
import { objectBackend } from "../../src/cache/fingerprint-cache.js";
import { packedKeys } from "../../src/cache/packed-keys.js";
import { tieredCache } from "../../src/cache/tiered-cache.js";
import type { KeyRecord, RowChange } from "../../src/contracts/store.js";
import { isMadeOf } from "../../src/contracts/row-changes.js";
import { referenceCache } from "./reference-cache.js";

const packed = (size: number) => tieredCache(size, packedKeys());
const BACKENDS: readonly [string, (size: number) => CacheBackend<CachedKey>][] = [
  ["objects", objectBackend],
  ["packed keys in tiers", packed],
  ["digests", digestBackend],
  ["objects with a ttl", (size) => withTtl(objectBackend(size), 1e9)],
  ["digests with a ttl", (size) => withTtl(digestBackend(size), 1e9)],
];

/** Version `serial` of key `ref`. Some share a policy, some have none of their own limits, some cannot be packed. */
function recordOf(ref: number, serial: number): KeyRecord {
  const limit = { id: `rl_${serial}`, name: "requests", limit: 10, duration: 1_000, autoApply: true };
  return {
    ref,
    keyId: `key_${ref}`,
    workspaceId: "ws",
    apiId: `api_${serial % 3}`,
    name: serial % 4 === 0 ? undefined : `name ${serial}`,
    meta: serial % 5 === 0 ? { serial } : undefined,
    expires: serial % 2 === 0 ? undefined : serial,
    enabled: true,
    permissions: serial % 3 === 0 ? [] : ["documents.read"],
    roles: [],
    grantIds: serial % 4 === 3 ? undefined : [`role_${serial % 4}`],
    identity: serial % 7 === 0 ? { id: `id_${serial % 2}`, externalId: "user", meta: {} } : undefined,
    ratelimits: [limit, { ...limit, id: `rl_other_${serial}`, name: "tokens" }].slice(0, serial % 3),
    hasCredits: true,
    generation: serial,
    parentDisabled: false,
    unadopted: false,
    ipAllowlists: [],
  } as KeyRecord;
}

/** All that tells one version of one key from another. */
function seen(key: CachedKey | undefined) {
  if (key === undefined) return undefined;
  const { ref, keyId, name, expires, generation, limitIds, rare, policy } = key;
  return { ref, keyId, name, expires, generation, limitIds, rare, policy, permissions: key.grants.copyPermissions() };
}

const ROWS: readonly RowChange[] = [
  { table: "apis", id: "api_1" },
  { table: "roles", id: "role_1" },
  { table: "permissions", id: "role_2" },
  { table: "identities", id: "id_1" },
  { table: "workspaces", id: "other" },
];
const TEXTS = 8;
const step = fc.record({
  act: fc.constantFrom("set", "set", "get", "get", "get", "hint", "delete", "deleteWhere", "clear"),
  text: fc.nat(TEXTS - 1),
  digest: fc.nat(TEXTS - 1),
  pick: fc.nat(),
});
const histories = fc.array(step, { maxLength: 150, size: "max" });
type History = readonly { act: string; text: number; digest: number; pick: number }[];

/** Plays a history on a backend and on the reference. @returns how many of the texts the backend has in the end */
function play(backend: CacheBackend<CachedKey>, size: number, history: History): number {
  const reference = referenceCache<CachedKey>();
  const prepare = createPreparer();
  /** Objects that calls got, and may still hold. */
  const held: CachedKey[] = [];
  // Where values are found by digests, a text has one digest, as keys have.
  const isByDigest = backend.getByDigest !== undefined;
  const get = (text: number) => {
    const found = isByDigest ? backend.getByDigest?.(`digest ${text}`) : backend.get(`text ${text}`);
    const right = isByDigest ? reference.getByDigest(`digest ${text}`) : reference.get(`text ${text}`);
    if (found !== undefined || size >= TEXTS) expect(seen(found)).toEqual(seen(right));
    if (found === undefined) return undefined;
    // Hints are of the key itself, never of one that had its place before.
    expect([-1, found.ref]).toContain(found.row);
    return found;
  };
  history.forEach(({ act, text, digest: picked, pick }, serial) => {
    const digest = `digest ${isByDigest ? text : picked}`;
    if (act === "set") {
      const key = prepare(recordOf(text, serial));
      backend.set(`text ${text}`, digest, key);
      reference.set(`text ${text}`, digest, key);
    } else if (act === "delete") {
      backend.delete(digest);
      reference.delete(digest);
    } else if (act === "deleteWhere") {
      const change = ROWS[pick % ROWS.length]!;
      const kept = backend.deleteWhere((key) => isMadeOf(key, change));
      if (size >= TEXTS) expect(kept).toBe(reference.deleteWhere((key) => isMadeOf(key, change)));
    } else if (act === "clear" && pick % 4 === 0) {
      backend.clear();
      reference.clear();
    } else if (act === "hint" && held.length > 0) {
      const key = held[pick % held.length] as CachedKey;
      key.foundAt(key.ref as number, 1, 2);
    } else {
      const found = get(text);
      if (found !== undefined) held.push(found);
    }
  });
  return Array.from({ length: TEXTS }, (_, text) => get(text)).filter((found) => found !== undefined).length;
}

describe.each(BACKENDS)("cache backend: %s", (_name, make) => {
  it("below its bound, returns what the reference returns", () => {
    fc.assert(fc.property(histories, (history) => void play(make(TEXTS), TEXTS, history)));
  });

  it("at its bound, returns that or nothing, and holds no more than its size", () => {
    fc.assert(
      fc.property(histories, fc.integer({ min: 1, max: 4 }), (history, size) => {
        expect(play(make(size), size, history)).toBeLessThanOrEqual(size);
      }),
    );
  });
});
