/** A class of Durable Objects that have keys. */
import { DurableObject } from "cloudflare:workers";
import { type AlarmStorage, createEngine, type Engine, type ObjectOptions } from "./engine.js";

/** What is used of the state of an object: its `ctx`. */
export interface ObjectState {
  readonly storage: AlarmStorage;
}

/** A Durable Object with keys; {@link keystileObject} makes its class. */
export interface KeystileObject {
  /** The mark by which the platform's types know the class of an object. There is no such property. */
  readonly __DURABLE_OBJECT_BRAND: never;
  /**
   * An operation of the keyring or the verifier, for {@link remoteVerifier} and {@link remoteKeyring}. Whoever has the
   * stub may do everything.
   * @returns the answer as text
   */
  call(operation: string, ...given: unknown[]): Promise<string>;
  /** The service below `/v2/`, which root keys may call, and what the option `mount` adds. */
  fetch(request: Request): Promise<Response>;
  /** Writes counts, removes old ones, and tells of alerts. The platform calls it. */
  alarm(): Promise<void>;
}

/** The class of {@link KeystileObject}. */
export type KeystileObjectClass<Env> = new (state: ObjectState, env: Env) => KeystileObject;

/**
 * Makes a class of Durable Objects: keys, credits, rate limits and reservations in the object's SQLite, exact over all
 * calls, since an object is one process. Export a class that extends it, and name that among `new_sqlite_classes`.
 * @param options or a function that returns them, of the environment and the state of each object
 * @throws (when an object is made) TypeError or RangeError naming the option · KeystileError STORE_…
 * @example
 * export class Keys extends keystileObject({ verifier: { analytics: true } }) {}
 */
export function keystileObject<Env = unknown>(
  options: ObjectOptions<Env> | ((env: Env, state: ObjectState) => ObjectOptions<Env>) = {},
): KeystileObjectClass<Env> {
  return class extends DurableObject<Env> implements KeystileObject {
    declare readonly __DURABLE_OBJECT_BRAND: never;
    readonly #engine: Engine;

    constructor(state: ObjectState, env: Env) {
      super(state, env);
      this.#engine = createEngine(state.storage, typeof options === "function" ? options(env, state) : options, env);
    }

    call(operation: string, ...given: unknown[]): Promise<string> {
      return this.#engine.call(operation, given);
    }

    fetch(request: Request): Promise<Response> {
      return this.#engine.fetch(request);
    }

    alarm(): Promise<void> {
      return this.#engine.alarm();
    }
  };
}
