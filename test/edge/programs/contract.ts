/** An object for each world of the tests of the contract. Its name has its options. */
import { setClock } from "./test-clock.js";
import { keystileObject, type ObjectOptions } from "../../../src/edge/index.js";
import type { KeystileObject } from "../../../src/edge/object.js";
import { NOW, WORLD } from "./contract-headers.js";

export class Objects extends keystileObject((_, state) => {
  const { name } = (state as unknown as { id: { name: string } }).id;
  return JSON.parse(name.slice(name.indexOf("{"))) as ObjectOptions;
}) {}

interface Env {
  readonly KEYS: { getByName(name: string): KeystileObject };
}

// oxlint-disable-next-line no-restricted-exports -- what a Worker is
export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const headers = new Headers(request.headers);
    const object = env.KEYS.getByName(headers.get(WORLD)!);
    setClock(Number(headers.get(NOW)));
    headers.delete(WORLD);
    headers.delete(NOW);
    if (new URL(request.url).pathname !== "/call") {
      // An answer before the end of a body ends a connection, of which the next request may not know yet.
      const body = request.body && (await request.arrayBuffer());
      return object.fetch(new Request(request.url, { method: request.method, headers, body }));
    }
    const [operation, ...given] = (await request.json()) as [string, ...unknown[]];
    // JSON has `null` for an argument that is undefined.
    return new Response(await object.call(operation, ...given.map((one) => one ?? undefined)));
  },
};
