/** What calls write in the storage of an object, in rows as the platform counts them; and objects that end early. */
import { DurableObject } from "cloudflare:workers";
import { type AlarmStorage, createEngine, type Engine } from "../../../src/edge/engine.js";
import { remoteKeyring, remoteVerifier } from "../../../src/edge/index.js";

interface Cursor {
  readonly rowsWritten: number;
  toArray(): unknown[];
}
interface State {
  readonly id: { readonly name: string };
  readonly storage: AlarmStorage & { readonly sql: { exec(query: string, ...values: never[]): Cursor } };
  abort(reason: string): void;
}

/** Of the isolate. */
let rows = 0;

function counted(of: State["storage"]): AlarmStorage {
  return {
    getAlarm: () => of.getAlarm(),
    setAlarm: (time) => of.setAlarm(time),
    transactionSync: (work) => of.transactionSync(work),
    sql: {
      exec(query, ...values) {
        const cursor = of.sql.exec(query, ...values);
        const found = cursor.toArray();
        rows += (cursor as { rowsWritten?: number }).rowsWritten ?? 0;
        return { toArray: () => found };
      },
    },
  };
}

export class Counted extends DurableObject {
  readonly #engine: Engine;
  readonly #state: State;

  constructor(state: State, env: unknown) {
    super(state, env);
    this.#state = state;
    const limits = state.id.name === "memory" ? "memory" : "durable";
    // Counts are written by the alarm alone.
    const analytics = state.id.name === "alarm" && { interval: 60_000 };
    const options = { limits, interval: 1_000, verifier: { analytics } } as const;
    this.#engine = createEngine(counted(state.storage), options, env);
  }

  call(operation: string, ...given: unknown[]): Promise<string> {
    return this.#engine.call(operation, given);
  }

  alarm(): Promise<void> {
    return this.#engine.alarm();
  }

  end(): void {
    this.#state.abort("ended by the test");
  }

  countedCalls(): number {
    const [row] = this.#state.storage.sql.exec("SELECT sum(valid) AS n FROM keystile_outcomes_hour").toArray();
    return (row as { readonly n: number | null }).n ?? 0;
  }
}

interface Env {
  readonly KEYS: { getByName(name: string): Counted };
}

/** Rows written by a call of each kind, the second time that it is made. */
export type Rows = Readonly<Record<"created" | "plain" | "credits" | "limit" | "memory", number>>;

async function rowsOf(env: Env): Promise<Rows> {
  const measure = async (work: () => Promise<unknown>) => {
    const before = rows;
    await work();
    return rows - before;
  };
  const made = async (name: string) => {
    const objectOf = () => env.KEYS.getByName(name);
    const keyring = remoteKeyring(objectOf);
    const verifier = remoteVerifier(objectOf);
    const { apiId } = await keyring.createApi({ name: "documents" });
    return async (body: object) => {
      const { key } = await keyring.createKey({ apiId, ...body });
      await verifier.verify({ key });
      return measure(() => verifier.verify({ key }));
    };
  };
  const ratelimits = [{ name: "requests", limit: 9, duration: 60_000, autoApply: true }];
  const [rowsIn, rowsInMemory] = [await made("durable"), await made("memory")];
  const unknown = remoteVerifier(() => env.KEYS.getByName("invented"));
  return {
    created: await measure(() => unknown.verify({ key: "invented_key" })),
    plain: await rowsIn({}),
    credits: await rowsIn({ credits: { remaining: 9 } }),
    limit: await rowsIn({ ratelimits }),
    memory: await rowsInMemory({ ratelimits }),
  };
}

/** Credits left of 10, after 5 were reserved, the object ended, and 2 were kept. */
async function leftAfterEnd(env: Env): Promise<number | undefined> {
  const objectOf = () => env.KEYS.getByName("ending");
  const keyring = remoteKeyring(objectOf);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key, keyId } = await keyring.createKey({ apiId, credits: { remaining: 10 } });
  const call = await remoteVerifier(objectOf).reserve({ key, credits: { cost: 5 } });
  if (!call.valid) throw new Error(call.code);
  await Promise.resolve(objectOf().end()).catch(() => undefined);
  await call.commit(2);
  return (await keyring.getKey({ keyId })).credits?.remaining ?? undefined;
}

/** How calls end whose arguments cannot be sent, and one after them. */
async function unsent(env: Env): Promise<string[]> {
  const keyring = remoteKeyring(() => env.KEYS.getByName("durable"));
  const metas = [
    new (class Plan {
      readonly name = "pro";
    })(),
    { text: "x".repeat(3 << 20) },
    { text: "x".repeat(40 << 20) },
  ];
  const ends: string[] = [];
  for (const meta of metas)
    ends.push(
      await keyring.createIdentity({ externalId: "acme", meta: meta as never }).then(
        () => "created",
        (error: unknown) => (error as { code?: string }).code ?? (error as Error).name,
      ),
    );
  await keyring.createIdentity({ externalId: "acme" });
  return ends;
}

/** Calls that the alarm has written, once it has. */
async function countedByAlarm(env: Env): Promise<number> {
  const object = env.KEYS.getByName("alarm");
  const keyring = remoteKeyring(() => object);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key } = await keyring.createKey({ apiId });
  for (let i = 0; i < 3; i++) await remoteVerifier(() => object).verify({ key });
  for (let tries = 0; tries < 200 && (await object.countedCalls()) === 0; tries++)
    await new Promise((resolve) => setTimeout(resolve, 100));
  return object.countedCalls();
}

const ROUTES: Readonly<Record<string, (env: Env) => Promise<unknown>>> = {
  "/rows": rowsOf,
  "/ended": leftAfterEnd,
  "/unsent": unsent,
  "/alarm": countedByAlarm,
};

// oxlint-disable-next-line no-restricted-exports -- what a Worker is
export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    return Response.json(await ROUTES[new URL(request.url).pathname]!(env));
  },
};
