/** createConsole: pages for looking after keys, as a function from `Request` to `Response`. */
import { createRootKeys } from "../access/authenticate.js";
import { createAnalytics } from "../analytics/analytics.js";
import type { Store } from "../contracts/store.js";
import { type Handler, type HandlerOptions, handlerOf, WEB_OPTIONS } from "../http/fetch.js";
import { createReadiness } from "../http/readiness.js";
import { type Service, wireServices } from "../http/service.js";
import { fireAndForget } from "../lib/callbacks.js";
import { DEFAULT_WORKSPACE, guardClock } from "../lib/check-options.js";
import { checkStore } from "../lib/guards/guard-store.js";
import { newSecret } from "../lib/hash.js";
import { memoryLimiter } from "../ratelimit/memory/limiter.js";
import { type ConsoleContext, refuse, route } from "./answer.js";
import { checkConsoleOptions, type ConsoleOptions } from "./options.js";
import { servePages } from "../view/pages.js";
import { createSentForms } from "../view/reading.js";
import { checkBase } from "../view/outgoing.js";
import { PAGES } from "./pages/find-page.js";
import { createSessions } from "./sessions.js";
import { createSignIn } from "./sign-in.js";
import { FILES } from "./view/layout.js";
import type { Health } from "./view/view.js";

/** Options of {@link createConsole}. */
export interface ConsoleHandlerOptions extends ConsoleOptions, Pick<HandlerOptions, "clientAddress"> {}

/** Counts that a page adds up, some 50 ms of SQLite. */
const MAX_COUNTS = 100_000;

/**
 * Pages for looking after keys in a browser: keys, owners, roles, limits, why a key is refused. Whoever signs in with a
 * root key sees and changes what that root key may. Nothing is loaded from elsewhere, and everything works without
 * JavaScript.
 *
 * Mount it where only people who look after keys reach it, and over TLS. Its promise never rejects. Sessions are in
 * memory: they last 8 hours, 30 minutes unused, and end with the process or when the root key changes.
 * @param store the store of the verifiers
 * @throws TypeError or RangeError naming the option, or what the store lacks
 * @example
 * const console = createConsole(sqliteStore("keys.db"), { basePath: "/admin/keys" });
 * app.all("/admin/keys/*", (c) => console(c.req.raw));
 */
export function createConsole(store: Store, options: ConsoleHandlerOptions = {}): Handler {
  checkConsoleOptions(options, { clientAddress: WEB_OPTIONS.clientAddress });
  return handlerOf(createConsoleService(store, options), (path) => path, options);
}

/** The console, for any host. @param options checked */
export function createConsoleService(given: Store, options: ConsoleOptions): Service {
  checkStore(given);
  const { verifier: program, limiter, ...more } = options;
  const { basePath = "", hosts, readOnly = false, authenticate, analytics, onError, externalIds = "any" } = more;
  checkBase(basePath, ["/sign-in", "/sign-out", ...PAGES.map(({ path }) => path), ...Object.keys(FILES)]);
  const clock = guardClock(options.clock ?? Date.now);
  const settings = { ...more, externalIds, ...(limiter && { verifier: { limiter } }) };
  const { store, verifier, servicesOf, close } = wireServices(given, settings, undefined, program);
  const onFault = (error: unknown, requestId?: string): void =>
    onError && fireAndForget(() => onError(error, { ...(requestId !== undefined && { requestId }) }));
  const rootKeys = createRootKeys(store, { clock });
  const sessions = createSessions(rootKeys, clock);
  const attempts = memoryLimiter({ size: 10_000 });
  const readiness = createReadiness(store, onFault);
  const context: ConsoleContext = {
    ...{ basePath, hosts, isReadOnly: readOnly, authenticate, sessions, servicesOf, clock, onFault },
    analyticsOf(workspaceId) {
      // What the program gave is of one workspace.
      if (workspaceId === (options.workspaceId ?? DEFAULT_WORKSPACE) && analytics !== undefined) return analytics;
      if (store.powers.analytics !== true) return undefined;
      return createAnalytics(store, { workspaceId, clock, maxRows: MAX_COUNTS });
    },
    seesLimits: limiter !== undefined || program !== undefined,
    signIn: createSignIn(sessions, attempts, clock),
    sent: createSentForms(),
    secret: newSecret(),
    async health(): Promise<Health> {
      const found = await readiness.health();
      const { problems = [], warnings = [] } = found ?? {};
      const counters = Object.entries({ ...found?.counters, ...verifier.counters() });
      const numbers = counters.filter((one): one is [string, number] => typeof one[1] === "number");
      return { ok: found?.ok, problems, warnings, counters: Object.fromEntries(numbers) };
    },
  };
  return servePages(
    (incoming, hold) => route(context, incoming, hold),
    (thrown) => refuse(context, thrown),
    async () => {
      rootKeys.close();
      attempts.close();
      await close();
    },
  );
}
