/**
 * A small world for the spec tests: a store, its keyring, a verifier and one clock that the test moves; or those in
 * workerd.
 */
import { expect } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import {
  createKeyring,
  createVerifier,
  isKeystileError,
  type Keyring,
  type KeystileError,
  memoryStore,
  type Verifier,
  type VerifierOptions,
} from "../../src/index.js";
import { remoteVerifier } from "../../src/edge/remote.js";
import { absent, IS_IN_WORKERD, TIMEOUT, worldInWorkerd } from "../edge/contract-world.js";

/** 2026-03-10T12:00:00Z */
export const NOON = Date.UTC(2026, 2, 10, 12);

/** Counts the calls of each method of a store. */
export function counting({ powers, ...methods }: Store): { store: Store; calls: Record<string, number> } {
  const calls: Record<string, number> = {};
  const counted = Object.entries(methods).map(([name, method]: [string, (...args: never[]) => unknown]) => [
    name,
    (...args: never[]) => {
      calls[name] = (calls[name] ?? 0) + 1;
      return method(...args);
    },
  ]);
  return { store: { powers, ...(Object.fromEntries(counted) as typeof methods) }, calls };
}

export async function world(options: VerifierOptions = {}) {
  const time = { now: NOON };
  const clock = () => time.now;
  const { store, calls, keyring, verifier } = IS_IN_WORKERD ? far(options, clock) : near(options, clock);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const create = (body: Omit<Parameters<Keyring["createKey"]>[0], "apiId"> = {}) =>
    keyring.createKey({ apiId, ...body });
  return { store, calls, keyring, verifier, apiId, create, time, clock, verify: verifier.verify };
}

interface Parts {
  readonly store: Store;
  /** Calls of each method of the store. */
  readonly calls: Record<string, number>;
  readonly keyring: Keyring;
  readonly verifier: Verifier;
}

function near(options: VerifierOptions, clock: () => number): Parts {
  const { store, calls } = counting(memoryStore());
  return {
    store,
    calls,
    keyring: createKeyring(store, { clock }),
    verifier: createVerifier(store, { clock, ...options }),
  };
}

function far(verifier: VerifierOptions, clock: () => number): Parts {
  const { stub, keyring } = worldInWorkerd({ verifier }, clock);
  return {
    store: absent("the store") as Store,
    calls: absent("the count of calls") as Record<string, number>,
    keyring,
    // An object is not closed.
    verifier: { ...remoteVerifier(() => stub, { timeout: TIMEOUT }), close: () => Promise.resolve() } as Verifier,
  };
}

export async function failure(promise: Promise<unknown>): Promise<KeystileError> {
  const error: unknown = await promise.then(
    (value) => ({ resolved: value }),
    (thrown: unknown) => thrown,
  );
  if (!isKeystileError(error)) expect(error).toBe("a KeystileError");
  return error as KeystileError;
}

export const limit = (name: string, over: object = {}) => ({
  name,
  limit: 10,
  duration: 60_000,
  autoApply: true,
  ...over,
});
