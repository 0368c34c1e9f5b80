/** What a Durable Object of keystile does: calls of its stub, HTTP, and its alarm. Needs no module of the platform. */
import { type AlertsOptions, createAlerts } from "../alerts/alerts.js";
import type { Store } from "../contracts/store.js";
import { createHandler, type Handler, type HandlerOptions, WEB_OPTIONS } from "../http/fetch.js";
import type { ServiceParts } from "../http/service.js";
import { createKeyring, type Keyring } from "../keyring/keyring.js";
import { createRatelimits } from "../keyring/ratelimits/create-ratelimits.js";
import { fireAndForget, settled } from "../lib/callbacks.js";
import { callable, type Check, checkOptions, integer, oneOf, workspace } from "../lib/check-options.js";
import type { ObjectStorage } from "../stores/durable-object/connection.js";
import { durableObjectLimiter } from "../stores/durable-object/limiter.js";
import { durableObjectStore, type ObjectStoreOptions } from "../stores/durable-object/store.js";
import type { VerifyContext } from "../verify/context.js";
import { TELL_PERMISSIONS, type TellingContext } from "../verify/parse-permission-query.js";
import type { ReserveContext } from "../verify/reserve.js";
import { retryAfter } from "../verify/result-retry-after.js";
import type { VerifierOptions } from "../verify/verifier-options.js";
import { createVerifier, type Verifier } from "../verify/verifier.js";
import { type Answer, answerOf } from "./answers.js";

/** The storage of an object, with its alarm. */
export interface AlarmStorage extends ObjectStorage {
  getAlarm(): Promise<number | null>;
  setAlarm(time: number): Promise<void>;
}

/** What an object is made of. */
export interface ObjectParts<Env = unknown> {
  readonly env: Env;
  readonly store: Store;
  readonly verifier: Verifier;
  readonly keyring: Keyring;
}

/** Options of {@link keystileObject}; all have defaults. */
export interface ObjectOptions<Env = unknown> extends ObjectStoreOptions {
  /** The workspace of the object, 1–255 characters of `[a-zA-Z0-9_-]`, default `ws_default`. */
  readonly workspaceId?: string;
  /**
   * Where rate limits are: `durable` (default): in the object's storage, two or three rows written a call; `memory`:
   * without writes, and buckets start full whenever the platform evicts the object, as it does after seconds without a
   * call.
   */
  readonly limits?: "durable" | "memory";
  /** Options of the verifier, such as `analytics: true`. */
  readonly verifier?: Omit<VerifierOptions, "workspaceId" | "limiter">;
  /** Options of the service below `/v2/`. */
  readonly service?: Omit<HandlerOptions, "workspaceId" | "verifier" | "clock" | "onAudit" | "audit" | "basePath">;
  /** What is told of; looked at by the alarm. */
  readonly alerts?: Omit<AlertsOptions, "workspaceId" | "interval" | "clock" | "onError">;
  /**
   * Further handlers, by the path below which they answer: a console or a portal with the same path as `basePath`.
   * Called once, by the first request.
   */
  readonly mount?: (parts: ObjectParts<Env>) => Readonly<Record<string, (request: Request) => Promise<Response>>>;
  /**
   * Milliseconds between two alarms, 1_000…86_400_000, default 60_000. There are alarms with `alerts`, and while counts
   * of `verifier.analytics` come in.
   */
  readonly interval?: number;
  /** Called with what an alarm failed with. Default: `console.error`. */
  readonly onError?: (error: unknown) => unknown;
}

const unchecked: Check = () => undefined;
const OPTIONS = {
  workspaceId: workspace,
  limits: oneOf("durable", "memory"),
  // Checked by what they are passed on to.
  ...{ audit: unchecked, verifier: unchecked, service: unchecked, alerts: unchecked },
  mount: callable,
  interval: integer(1_000, 86_400_000),
  onError: callable,
} as const satisfies Record<keyof ObjectOptions, Check>;

/** @throws TypeError or RangeError naming the option · KeystileError STORE_… */
export function createEngine<Env>(storage: AlarmStorage, given: ObjectOptions<Env>, env: Env) {
  const { workspaceId = "ws_default", audit, limits, interval = 60_000, ...options } = checkOptions(given, OPTIONS);
  const store = durableObjectStore(storage, audit && { audit });
  const limiter = limits === "memory" ? undefined : durableObjectLimiter(storage);
  const verifier = createVerifier(store, { ...options.verifier, workspaceId, ...(limiter && { limiter }) });
  const keyring = createKeyring(store, { workspaceId });
  const ratelimits = createRatelimits(store, { workspaceId, ...(limiter && { limiter }) });
  // oxlint-disable-next-line no-console -- the only log of a worker
  const { onError = console.error } = options;
  const alerts =
    options.alerts && createAlerts(store, { ...options.alerts, workspaceId, interval: 0, onError: (e) => onError(e) });
  const parts: ServiceParts & ObjectParts<Env> = { env, store, verifier, keyring, ratelimits };

  const hasAlarms = alerts !== undefined || Boolean(options.verifier?.analytics);
  let isArmed = false;
  /** Sets the next alarm, unless there is one or nothing to do for it. */
  const arm = async (): Promise<void> => {
    if (isArmed || !hasAlarms) return;
    isArmed = true;
    try {
      if ((await storage.getAlarm()) === null) await storage.setAlarm(Date.now() + interval);
    } catch (error) {
      // The next call tries again.
      isArmed = false;
      throw error;
    }
  };
  const operations = createOperations(verifier, keyring);
  let handlers: Handlers | undefined;
  return {
    call(operation: string, [first, ...more]: readonly unknown[]): Promise<string> {
      fireAndForget(arm);
      return answerOf(async () => {
        const run = operations[operation];
        if (run === undefined) throw new TypeError(`there is no operation ${JSON.stringify(operation)}`);
        return run(first, ...more);
      });
    },
    async fetch(request: Request): Promise<Response> {
      fireAndForget(arm);
      handlers ??= {
        ...checkMounted(settled(options.mount?.(parts), "options.mount")),
        "": createHandler(parts, { clientAddress, ...options.service }),
      };
      return handlerFor(handlers, new URL(request.url).pathname)(request);
    },
    async alarm(): Promise<void> {
      isArmed = false;
      try {
        await verifier.flush();
        await alerts?.run();
      } catch (error) {
        fireAndForget(() => onError(error));
      } finally {
        // Without alerts the next call sets one.
        if (alerts !== undefined) await arm();
      }
    },
  };
}

/** An object of keystile, whatever class it is in. */
export type Engine = ReturnType<typeof createEngine>;

/** As the platform sets it: whoever calls through it cannot choose it. */
const clientAddress = (request: Request): string | undefined => request.headers.get("cf-connecting-ip") ?? undefined;

type Handlers = Readonly<Record<string, (request: Request) => Promise<Response>>>;

/** @throws TypeError: below such a path no request is, or what answers is no function */
function checkMounted(mounted: Handlers = {}): Handlers {
  for (const [base, handler] of Object.entries(mounted)) {
    WEB_OPTIONS.basePath(base, "a path of options.mount");
    callable(handler, `options.mount: what is at ${base}`);
  }
  return mounted;
}

/** The handler with the longest path that the request is below. */
function handlerFor(handlers: Handlers, path: string): (request: Request) => Promise<Response> {
  const bases = Object.keys(handlers).filter((base) => path === base || path.startsWith(`${base}/`));
  return handlers[bases.sort((a, b) => b.length - a.length)[0] ?? ""] as Handler;
}

type Run = (first: unknown, ...more: readonly unknown[]) => Promise<Answer>;

/** By name, without a prototype: those of the keyring, and what the verifier takes by RPC. */
function createOperations(verifier: Verifier, keyring: Keyring): Readonly<Record<string, Run>> {
  const plain = (method: (...given: never[]) => Promise<unknown>): Run => {
    return async (...given) => ({ value: await method(...(given as readonly unknown[] as never[])) });
  };
  const verifying = (method: Verifier["verify"]): Run => {
    return async (request, given, asks) => {
      const told: { permissions?: string[] | undefined } = {};
      const tell: TellingContext = {
        [TELL_PERMISSIONS]: (_, listed) => void (told.permissions = listed.permissions?.slice()),
      };
      const context = asks === true ? { ...(given as VerifyContext | undefined), ...tell } : given;
      const value = await method(request as never, context as never);
      return { value, retryAfter: retryAfter(value), ...told };
    };
  };
  return Object.assign(Object.create(null) as Record<string, Run>, {
    ...Object.fromEntries(Object.entries(keyring).map(([name, method]) => [name, plain(method as never)])),
    verify: verifying((request, context) => verifier.verify(request, context)),
    reserve: verifying((request, context) => verifier.reserve(request, context as ReserveContext)),
    ...{ settle: plain(verifier.settle), spend: plain(verifier.spend) },
  });
}
