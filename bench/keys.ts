/** The keys of all benches, each made from its number alone, and the requests that present them. */
import { hash } from "node:crypto";
import type { KeyRow, NewKey } from "../src/contracts/store.js";
import type { RatelimitResponse, V2KeysVerifyKeyRequestBody } from "../src/contracts/types.js";
import { scaled } from "./harness.js";

export const WORKSPACE = "ws_default";
export const API = "api_bench";
/** Three names; all of them are asked for, since the second is not granted. */
export const QUERY = "documents.read AND (billing.view OR reports.export)";
/** Granted to every key. */
export const PERMISSIONS = ["documents.read", "reports.export", "audit.view"] as const;
/** The first balance of a limited key: more than any bench can spend, and a small integer of the engine. */
export const BALANCE = 2 ** 30;
/**
 * Never exceeded here, and never full again: a bucket in use, as a limiter has them. Small numbers, which cost less
 * than large ones.
 */
const LIMIT = { name: "requests", limit: 1_000_000, duration: 2_592_000_000, autoApply: true };
/** Fixed, so that the stores are the same on every day. */
const CREATED_AT = Date.UTC(2026, 0, 1);
/** Keys from this number on are in no store. */
const UNKNOWN = 1_000_000_000;
/** Characters of a key. */
const LENGTH = 40;

const text = Buffer.from("bench_".padEnd(LENGTH, "0"), "latin1");

/** A key of 40 characters. A fresh string at every call, flat, as one from the wire is. */
export function keyText(n: number): string {
  text.write(hash("sha256", `keystile ${n}`, "base64url"), 6, "latin1");
  return text.toString("latin1");
}

export const digestOf = (n: number): string => hash("sha256", keyText(n), "base64");
export const keyIdOf = (n: number): string => `key_${String(n).padStart(22, "0")}`;
/** A number whose key is in no store. */
export const unknown = (n: number): number => UNKNOWN + n;

/**
 * Row `n` of a store, under {@link API}: three permissions, one automatic limit; with {@link BALANCE} credits or
 * unlimited.
 */
export function keyRow(n: number, limited: boolean): NewKey {
  const ratelimits: RatelimitResponse[] = [{ id: `rl_${String(n).padStart(22, "0")}`, ...LIMIT }];
  const row: KeyRow = {
    id: keyIdOf(n),
    version: 0,
    workspaceId: WORKSPACE,
    apiId: API,
    digest: digestOf(n),
    start: "bench_",
    name: `Key ${n}`,
    enabled: true,
    permissions: PERMISSIONS.map(permissionIdOf),
    roles: [],
    ratelimits,
    ipAllowlist: [],
    hasCredits: limited,
    generation: 0,
    deleted: false,
    createdAt: CREATED_AT,
  };
  return limited ? { row, balance: { remaining: BALANCE, amount: 0, period: 0 } } : { row };
}

export const permissionIdOf = (slug: string): string => `perm_${slug.replace(".", "_")}`;

export type Request = V2KeysVerifyKeyRequestBody;

/** So many that they come in no order, and few enough to stay in the processor's cache. */
const LEAST_SAMPLE = scaled(8_192, 2_048);

/**
 * Numbers of keys, uniform over `size`, in an order drawn from a fixed seed. At least as many as there are keys, and
 * made before anything is timed: making them in between would leave garbage for the others to clear.
 */
export function sample(size: number): number[] {
  const random = randomFrom(size);
  return Array.from({ length: Math.max(LEAST_SAMPLE, size) }, () => random() % size);
}

/** The same work everywhere: a query of three names, the automatic limit, a credit. */
export function requestFor(n: number): Request {
  return { key: keyText(n), permissions: QUERY };
}

/** Requests without end. */
export interface Requests {
  next(): Request;
  /**
   * Reads the next ones: a request that has just come from the wire is in the processor's cache, and so must these be.
   */
  ready(count: number): number;
}

/**
 * The requests for keys at random below `keys`, over and over. @param most so many of them: ten millions would fill the
 * memory that is measured
 */
export function requestsFor(keys: number, most = Infinity): Requests {
  const requests = sample(keys).slice(0, most).map(requestFor);
  let at = 0;
  return {
    next() {
      const request = requests[at] as Request;
      at = at + 1 === requests.length ? 0 : at + 1;
      return request;
    },
    ready(count) {
      let sum = 0;
      for (let i = 0; i < count; i++) sum += requests[(at + i) % requests.length]?.key.charCodeAt(0) ?? 0;
      return sum;
    },
  };
}

/** Hands out items in turn, over and over. */
export function endless<T>(items: readonly T[]): () => T {
  let at = 0;
  return () => {
    const item = items[at] as T;
    at = at + 1 === items.length ? 0 : at + 1;
    return item;
  };
}

/** Unsigned 32-bit numbers that look random, always the same (mulberry32). For samples, never for real keys. */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let x = Math.imul(state ^ (state >>> 15), 1 | state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return (x ^ (x >>> 14)) >>> 0;
  };
}
