/**
 * A small world for the tests of administration: a memory store, its keyring, one of another workspace, and a clock
 * that the test moves.
 */
import { expect } from "vitest";
import { isKeystileError, type KeystileError } from "../../src/contracts/errors.js";
import type { KeyRef, Store } from "../../src/contracts/store.js";
import { createKeyring, type Keyring, type KeyringOptions } from "../../src/keyring/keyring.js";
import { memoryStore } from "../../src/stores/memory.js";

/** 2026-03-10T12:00:00Z */
export const NOON = Date.UTC(2026, 2, 10, 12);
export const DAY = 86_400_000;

export async function world(options: Omit<KeyringOptions, "clock"> & { store?: Store } = {}) {
  const { store = memoryStore(), ...rest } = options;
  const time = { now: NOON };
  const clock = () => time.now;
  const keyring = createKeyring(store, { clock, ...rest });
  const elsewhere = createKeyring(store, { clock, workspaceId: "ws_other" });
  const { apiId } = await keyring.createApi({ name: "documents" });
  const create = (body: Omit<Parameters<Keyring["createKey"]>[0], "apiId"> = {}) =>
    keyring.createKey({ apiId, ...body });
  return { store, keyring, elsewhere, apiId, create, time };
}

export type World = Awaited<ReturnType<typeof world>>;

/** The KeystileError that a promise rejects with. */
export async function failure(promise: Promise<unknown>): Promise<KeystileError> {
  const error: unknown = await promise.then(
    (value) => ({ resolved: value }),
    (thrown: unknown) => thrown,
  );
  if (!isKeystileError(error)) expect(error).toBe("a KeystileError");
  return error as KeystileError;
}

/** Locations of the problems of a 400, in order. */
export async function problems(promise: Promise<unknown>): Promise<string[]> {
  const error = await failure(promise);
  expect([error.code, error.status]).toEqual(["BAD_REQUEST", 400]);
  return error.errors.map(({ location }) => location);
}

/** `CODE status`, for the faults that are not 400. */
export async function fault(promise: Promise<unknown>): Promise<string> {
  const { code, status } = await failure(promise);
  return `${code} ${status}`;
}

/** The store's own handle of a key. */
export async function refOf(store: Store, keyId: string): Promise<KeyRef> {
  const row = (await store.readMany("keys", [keyId]))[0];
  const record = await store.findKey(row?.digest ?? "");
  return record!.ref;
}

/** A store whose methods are changed. */
export function changed(store: Store, over: Partial<Store>): Store {
  return { ...store, ...over };
}

export const limit = (name: string, over: object = {}) => ({ name, limit: 10, duration: 60_000, ...over });

/** A store in memory without an audit trail, for which each change is read once more. */
export function unaudited(): Store {
  const store = memoryStore();
  return { ...store, powers: { ...store.powers, audit: false } };
}
