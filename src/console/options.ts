/** Options of the console: defaults and validation. */
import type { Analytics } from "../analytics/analytics.js";
import type { Caller } from "../contracts/caller.js";
import type { Limiter } from "../contracts/limiter.js";
import type { MaybePromise } from "../contracts/types.js";
import { AUDIT_OPTIONS } from "../keyring/audit.js";
import {
  callable,
  type Check,
  checkOptions,
  flag,
  methods,
  narrowing,
  type OptionChecks,
  workspace,
} from "../lib/check-options.js";
import type { ServiceOptions } from "../http/options.js";
import { WEB_OPTIONS } from "../http/fetch.js";
import { depsOf, type Verifier } from "../verify/verifier.js";

/** Options of the console on every host. */
export interface ConsoleOptions extends Pick<
  ServiceOptions,
  "workspaceId" | "clock" | "strictDelegation" | "externalIds" | "onAudit" | "audit" | "onError"
> {
  /**
   * Path below which browsers see the console, such as `/admin/keys`. A proxy or framework before it may pass that path
   * on or take it away. Default: none.
   */
  readonly basePath?: string;
  /** Made by `createVerifier`: its verdicts are explained. The program closes it. Default: one of the console's own. */
  readonly verifier?: Verifier<unknown>;
  /** The limiter of the verifier that the console creates. Default: rate limits look as if nobody had used them. */
  readonly limiter?: Limiter;
  /**
   * Made by `createAnalytics`, of the workspace `workspaceId`: read for the pages about usage and for statements.
   * Default: one of the console's own, which adds up at most 100,000 counts for a page.
   */
  readonly analytics?: ConsoleAnalytics;
  /** True: nothing can be changed. Default false. */
  readonly readOnly?: boolean;
  /**
   * Returns who sends a request, in place of signing in with a root key; `undefined`: nobody who may look. What it
   * throws or rejects with lets nobody in and is reported to `onError`.
   */
  readonly authenticate?: (request: Request) => MaybePromise<Caller | undefined>;
  /**
   * Names by which browsers reach the console, without ports: `["keys.example.com"]`. Requests with another `Host` are
   * refused, so that no page elsewhere can point its own name here. Default: any; for a listener on a loopback address
   * `localhost`, `127.0.0.1` and `[::1]`.
   */
  readonly hosts?: readonly string[];
}

/** What the console asks of counts; `createAnalytics` makes one. */
export type ConsoleAnalytics = Pick<Analytics, "query" | "statement" | "forecast">;

function names(value: unknown, path: string): void {
  const fits = Array.isArray(value) && value.every((name) => typeof name === "string" && /^[^\s/]+$/.test(name));
  if (!fits) throw new TypeError(`${path} must be an array of host names`);
}

const OPTIONS: OptionChecks = {
  workspaceId: workspace,
  clock: callable,
  strictDelegation: narrowing(flag),
  externalIds: (value, path) => {
    if (value !== "specified" && value !== "any") throw new TypeError(`${path} must be one of: specified, any`);
  },
  ...AUDIT_OPTIONS,
  onError: callable,
  basePath: WEB_OPTIONS.basePath,
  verifier: (value, path) => {
    methods("verify", "counters", "close")(value, path);
    if (depsOf(value as object) === undefined) throw new TypeError(`${path} must be one that createVerifier made`);
  },
  // Checked by the verifier.
  limiter: () => undefined,
  analytics: methods("query", "statement", "forecast"),
  readOnly: narrowing(flag),
  authenticate: callable,
  hosts: narrowing(names),
} satisfies Record<keyof ConsoleOptions, Check>;

/** @throws TypeError naming the option */
export function checkConsoleOptions(options: ConsoleOptions, more: OptionChecks): void {
  checkOptions(options, { ...OPTIONS, ...more });
  if (options.verifier !== undefined && options.limiter !== undefined)
    throw new TypeError("options.limiter must be given to the verifier, not beside it");
}
