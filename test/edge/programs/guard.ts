/** A route without a guard, with one, and with one whose object cannot start; and spends inside an object. */
import { keystileObject, remoteKeyring, remoteVerifier } from "../../../src/edge/index.js";
import { apiKey } from "../../../src/middleware/web.js";
import type { KeystileObject } from "../../../src/edge/object.js";
import { durableObjectStore } from "../../../src/edge/index.js";
import { createKeyring, createVerifier } from "../../../src/index.js";

interface Keys extends KeystileObject {
  spends(count: number, atOnce: number): Promise<{ readonly ms: number; readonly left: number }>;
}
interface Env {
  readonly KEYS: { getByName(name: string): Keys };
}

const answer = (): Response => Response.json({ documents: [] });
let guards: Record<string, (request: Request) => Promise<Response>> | undefined;

/** Keys whose text begins with the name of an object are in that object. */
function guardsOf(env: Env): Record<string, (request: Request) => Promise<Response>> {
  const objectOf = (key: string) => env.KEYS.getByName(key.split("_", 1)[0]!);
  const quiet = { onError: () => undefined };
  return {
    "/bare": () => Promise.resolve(answer()),
    "/guarded": apiKey(remoteVerifier(objectOf), quiet, answer),
    "/cached": apiKey(remoteVerifier(objectOf, { cache: { maxAge: 60_000 } }), quiet, answer),
  };
}

export class Objects extends keystileObject<Env>((_, state) => {
  if ((state as unknown as { id: { name: string } }).id.name === "broken")
    throw new Error("this object does not start");
  return {};
}) {
  readonly #storage;

  constructor(...given: ConstructorParameters<ReturnType<typeof keystileObject<Env>>>) {
    super(...given);
    this.#storage = given[0].storage;
  }

  async spends(count: number, atOnce: number) {
    const store = durableObjectStore(this.#storage);
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "spends" });
    const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: count } });
    const verifier = createVerifier(store);
    let next = 0;
    const began = Date.now();
    await Promise.all(
      Array.from({ length: atOnce }, async () => {
        while (next++ < count) await verifier.verify({ key });
      }),
    );
    const ms = Date.now() - began;
    return { ms, left: (await keyring.getKey({ keyId })).credits!.remaining! };
  }
}

// oxlint-disable-next-line no-restricted-exports -- what a Worker is
export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/spends") {
      const object = env.KEYS.getByName(`spends ${Math.random()}`);
      return Response.json(await object.spends(Number(searchParams.get("count")), Number(searchParams.get("atOnce"))));
    }
    if (pathname === "/keys") {
      const keyring = remoteKeyring(() => env.KEYS.getByName("acme"));
      const { apiId } = await keyring.createApi({ name: "documents" });
      const plain = await keyring.createKey({ apiId, prefix: "acme" });
      const paid = await keyring.createKey({ apiId, prefix: "acme", credits: { remaining: 1_000_000 } });
      return Response.json({ plain: plain.key, paid: paid.key });
    }
    guards ??= guardsOf(env);
    return guards[pathname]!(request);
  },
};
