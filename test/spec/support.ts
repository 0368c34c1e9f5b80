/** A small world for the spec tests: a store, its keyring, a verifier and one clock that the test moves. */
import { expect } from "vitest";
import type { Store } from "../../src/contracts/store.js";
import {
  createKeyring,
  createVerifier,
  isKeystileError,
  type Keyring,
  type KeystileError,
  memoryStore,
  type VerifierOptions,
} from "../../src/index.js";

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
  const { store, calls } = counting(memoryStore());
  const keyring: Keyring = createKeyring(store, { clock });
  const verifier = createVerifier(store, { clock, ...options });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const create = (body: Omit<Parameters<Keyring["createKey"]>[0], "apiId"> = {}) =>
    keyring.createKey({ apiId, ...body });
  return { store, calls, keyring, verifier, apiId, create, time, clock, verify: verifier.verify };
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
