/** A world of a test of the contract as an object in workerd, in the project `workerd`. */
import { inject } from "vitest";
import type { ObjectOptions } from "../../src/edge/engine.js";
import { type ObjectStub, remoteKeyring, type RemoteKeyring } from "../../src/edge/remote.js";
import { NOW, WORLD } from "./programs/contract-headers.js";

/** Whether this run is of the project `workerd`: then worlds are objects, and else in this process. */
export const IS_IN_WORKERD = process.env["TEST_WORLDS"] === "workerd";

/** Most requests at once: each has a connection. */
const AT_ONCE = 50;
/** Milliseconds that a call may wait for the others of its test. */
export const TIMEOUT = 60_000;

/** A world in workerd. */
export interface ContractWorld {
  readonly url: string;
  readonly stub: ObjectStub;
  readonly keyring: RemoteKeyring;
  /** `fetch`, to the object. */
  fetch(request: Request): Promise<Response>;
}

/** @param options that are data: a function cannot go there */
export function worldInWorkerd(options: ObjectOptions, clock: () => number): ContractWorld {
  const url = inject("workerd");
  const name = `${crypto.randomUUID()} ${asText(options)}`;
  const headers = () => ({ [WORLD]: name, [NOW]: String(clock()) });
  const inTurn = atMost(AT_ONCE);
  const stub: ObjectStub = {
    call: (...given) =>
      inTurn(async () => {
        const response = await fetch(`${url}/call`, { method: "POST", headers: headers(), body: asText(given) });
        const text = await response.text();
        if (response.status !== 200) throw new Error(text);
        return text;
      }),
  };
  return {
    url,
    stub,
    keyring: remoteKeyring(() => stub, { timeout: TIMEOUT }),
    fetch(request) {
      for (const [header, value] of Object.entries(headers())) request.headers.set(header, value);
      return fetch(request);
    },
  };
}

/** Runs what it is given, at most so many at once. */
function atMost(count: number): (work: () => Promise<string>) => Promise<string> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running >= count) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}

/** @throws TypeError: a part of it is no data */
function asText(value: object): string {
  return JSON.stringify(value, (name, part: unknown) => {
    if (typeof part === "function") throw new TypeError(`${name} is a function of this process`);
    return part;
  });
}

/** What a world in workerd has not: whoever asks for it is told. */
export function absent(what: string): object {
  return new Proxy(
    {},
    {
      get: (_, name) => {
        throw new TypeError(`${what}.${String(name)}: ${what} is in workerd`);
      },
    },
  );
}
