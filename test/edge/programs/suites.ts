/** The suites of stores and limiters, each test in a Durable Object of its own. */
import { DurableObject } from "cloudflare:workers";
import type { Store } from "../../../src/contracts/store.js";
import { durableObjectLimiter, durableObjectStore } from "../../../src/edge/index.js";
import { limiterSuite } from "../../../src/testing/limiter/suite.js";
import { storeSuite } from "../../../src/testing/store/suite.js";

type Tests = Map<string, () => Promise<void>>;

/** What a test that needs a second store at once fails with: an object has one storage. */
const ONE_STORAGE = "an object has one storage";

interface State {
  readonly storage: Parameters<typeof durableObjectLimiter>[0] & {
    readonly sql: { readonly databaseSize: number };
    deleteAll(): Promise<void>;
  };
}

export class Bed extends DurableObject {
  readonly #storage: State["storage"];

  constructor(state: State, env: unknown) {
    super(state, env);
    this.#storage = state.storage;
  }

  /** Runs a test. @returns what it failed with; `null`: it passed */
  async run(suite: string, title: string): Promise<string | null> {
    try {
      await testsOf(suite, this.#storage).get(title)!();
      return null;
    } catch (error) {
      return String((error as Error).stack ?? error);
    }
  }
}

function testsOf(suite: string, storage?: State["storage"]): Tests {
  const tests: Tests = new Map();
  const functions = {
    describe: (_: string, body: () => void) => body(),
    it: (title: string, body: () => Promise<void>) => void tests.set(title, body),
  };
  let stores = 0;
  const open = (): Store => {
    if (stores++ > 0) throw new Error(ONE_STORAGE);
    return durableObjectStore(storage!);
  };
  if (suite === "store") storeSuite(functions, "durable object", open);
  else
    limiterSuite(functions, "durable object", async () => {
      await storage!.deleteAll();
      return durableObjectLimiter(storage!);
    });
  return tests;
}

interface Env {
  readonly KEYS: { getByName(name: string): Pick<Bed, "run"> };
}

// oxlint-disable-next-line no-restricted-exports -- what a Worker is
export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const suite = new URL(request.url).pathname.slice(1);
    const outcomes = await Promise.all(
      [...testsOf(suite).keys()].map(async (title) => [
        title,
        await env.KEYS.getByName(`${suite} ${title}`).run(suite, title),
      ]),
    );
    return Response.json(outcomes);
  },
};
