/**
 * createAlerts: tells of bounds that are passed, each crossing once over all processes, and at least once each.
 *
 * Why the store decides: whoever finds a bound passed asks it to raise the alert, and of all who ask one does. What was
 * raised is kept until it was delivered, so that no crash comes between.
 */
import type { Alert, AlertRow, AlertState } from "../contracts/alerts.js";
import type { Store } from "../contracts/store.js";
import { nextTurn, startTimer } from "../lib/timers.js";
import { fireAndForget } from "../lib/callbacks.js";
import {
  callable,
  type Check,
  checkOptions,
  DEFAULT_WORKSPACE,
  guardClock,
  integer,
  isPlainObject,
  methods,
  oneOf,
  workspace,
} from "../lib/check-options.js";
import { checkStore, guardStore, STORE_GUARD_OPTIONS, type StoreGuardOptions } from "../lib/guards/guard-store.js";
import { requirePower } from "../lib/guards/powers.js";
import { newId } from "../lib/hash.js";
import { createTurns } from "../keyring/context.js";
import { type AlertWebhook, createSend, deliverOption } from "./deliver.js";
import {
  type CreditsShare,
  PAGE,
  type Raised,
  type Watch,
  watchCredits,
  watchExpiry,
  type Watching,
  watchOwnerExpiry,
  watchRefusals,
} from "./watches.js";

export type { CreditsShare };

/** What is told of, at least one. */
export interface AlertBounds {
  /**
   * Credits, ≥ 1, or {@link CreditsShare}: tells of a key or an identity whose balance and open grants together are
   * below it. It may tell again once they were 20 % above it.
   */
  readonly creditsBelow?: number | CreditsShare | undefined;
  /**
   * Milliseconds, 60_000…31_622_400_000: tells of keys and identities that expire within this time; not of keys that
   * another key replaces, or that were made with less time than this. Grants are not watched.
   */
  readonly expiresWithin?: number | undefined;
  /**
   * From above 0 to 1: tells of an API whose verifications of this hour and the one before, 100 or more, were refused
   * in this share. Needs verifiers with `analytics`.
   */
  readonly refusedShare?: number | undefined;
}
/** Bounds of their own: what crosses those of one rule is told whatever another has told of. */
export interface AlertRule extends AlertBounds {
  /** {@link Alert} `rule`: 1–64 characters of `[a-zA-Z0-9_-]`, another than those of the other rules. */
  readonly name: string;
}
/** Options of {@link createAlerts}: bounds, rules, or both. Processes of one workspace should have the same. */
export interface AlertsOptions extends StoreGuardOptions, AlertBounds {
  /** 1–255 characters of `[a-zA-Z0-9_-]`, default `ws_default`. */
  readonly workspaceId?: string;
  /** Further bounds, each under a name, at most 100: a mail at 20 % and another at 5 %. */
  readonly rules?: readonly AlertRule[] | undefined;
  /**
   * Called with each alert, or where it is posted. What throws, rejects, returns a fetch Response that is not `ok`, or
   * takes longer than `timeout` is tried again after 5 s, and then after ever longer pauses up to 14 h, some 31 h in
   * all. Rarely an alert comes twice, with one id.
   */
  readonly deliver: ((alert: Alert) => unknown) | AlertWebhook;
  /** Milliseconds for one delivery, 100…60_000, default 10_000. */
  readonly timeout?: number | undefined;
  /**
   * Milliseconds between two runs, 250…86_400_000, default 60_000; 0: only `run` runs. The timer keeps no process
   * alive.
   */
  readonly interval?: number | undefined;
  /** Called with what a run of the timer, or a delivery, failed with. */
  readonly onError?: ((error: unknown) => unknown) | undefined;
  /** Returns Unix milliseconds. Default `Date.now`. */
  readonly clock?: (() => number) | undefined;
}
/** What one run did. */
export interface AlertRun {
  /** Crossings that this process was the first to find. */
  readonly raised: number;
  readonly delivered: number;
  /** Deliveries that failed, and are tried again unless they are given up. */
  readonly failed: number;
}
/** An alert that is kept. */
export interface ListedAlert {
  readonly alert: Alert;
  /** How often it was tried to deliver it. */
  readonly tries: number;
  /** When it is tried next, Unix time in milliseconds. Absent: it is delivered, or given up. */
  readonly due?: number;
}
/** One page of a list of alerts, oldest first. */
export interface AlertPage {
  readonly alerts: readonly ListedAlert[];
  /** For the next page. Absent: there is none. */
  readonly cursor?: number;
}
/** Tells of bounds that are passed; made by {@link createAlerts}. Its methods need no `this`. */
export interface Alerts {
  /**
   * Looks at everything that is watched, and delivers what is due, also what other processes raised. While one run goes
   * on, another call joins it.
   * @throws (rejects) KeystileError ANALYTICS_TOO_LARGE · STORE_…, once all that did not fail is done
   */
  run(): Promise<AlertRun>;
  /**
   * Alerts that are `raised` and have not ended, `pending` and not yet delivered, or `dead` after their last try. What
   * is neither raised nor pending is forgotten after 30 days.
   * @param cursor of the page before
   * @throws (rejects) TypeError for another state · KeystileError STORE_…
   */
  list(state: AlertState, cursor?: number): Promise<AlertPage>;
  /** Ends the timer, and waits for a run that goes on, which ends early. The store stays open. */
  close(): Promise<void>;
}

const share: Check = (value, path) => {
  if (typeof value !== "number" || !(value > 0 && value <= 1)) throw new RangeError(`${path} must be above 0, to 1`);
};
const BOUNDS = {
  creditsBelow(value: unknown, path: string) {
    if (isPlainObject(value)) {
      const { share: given } = checkOptions(value as Partial<CreditsShare>, { share }, path);
      if (given === undefined) throw new TypeError(`${path} must be an integer, or { share }`);
    } else integer(1, Number.MAX_SAFE_INTEGER)(value, path);
  },
  expiresWithin: integer(60_000, 31_622_400_000),
  refusedShare: share,
} as const satisfies Record<keyof AlertBounds, Check>;
const ruleName: Check = (value, path) => {
  if (typeof value !== "string" || !RULE_NAME.test(value))
    throw new TypeError(`${path} must be 1 to 64 characters of a-z, A-Z, 0-9, _ and -`);
};
const RULE_NAME = /^[\w-]{1,64}$/;
const MAX_RULES = 100;
const OPTIONS = {
  ...STORE_GUARD_OPTIONS,
  ...BOUNDS,
  workspaceId: workspace,
  rules(value: unknown, path: string) {
    if (!Array.isArray(value) || value.length > MAX_RULES)
      throw new TypeError(`${path} must be a list of at most ${MAX_RULES} rules`);
    const names = new Set<string>();
    value.forEach((rule: AlertRule, i) => {
      const { name, ...bounds } = checkOptions(rule, { ...BOUNDS, name: ruleName }, `${path}[${i}]`);
      ruleName(name, `${path}[${i}].name`);
      if (!hasBound(bounds)) throw new TypeError(`${path}[${i}] has no bound; ${BOUND_MISSING}`);
      if (names.has(name)) throw new TypeError(`${path}[${i}].name is that of another rule`);
      names.add(name);
    });
  },
  deliver: deliverOption,
  timeout: integer(100, 60_000),
  interval(value: unknown, path: string) {
    if (value !== 0) integer(250, 86_400_000)(value, path);
  },
  onError: callable,
  clock: callable,
} as const satisfies Record<keyof AlertsOptions, Check>;

const BOUND_MISSING = "give creditsBelow, expiresWithin or refusedShare";
const hasBound = (bounds: AlertBounds): boolean =>
  [bounds.creditsBelow, bounds.expiresWithin, bounds.refusedShare].some((bound) => bound !== undefined);

const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 3_600_000;
/** Pauses after each try that failed, as Standard Webhooks proposes them; after the last one it is dead. */
const PAUSES = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR] as const;
/** Deliveries at once. */
const BATCH = 10;
/** Milliseconds, besides the time-out, after which what a process took is due again. */
const LEASE = 50_000;
const FORGET_AFTER = 30 * 24 * HOUR;
const isState = oneOf("raised", "pending", "dead");

/**
 * Watches balances, expiries and refusals. A run looks at each key once, in slices; the first one tells of everything
 * that is beyond its bound by then. Any number of processes may run it on one store.
 * @param given the store of the verifiers, with the powers `alerts` and `search`, and `analytics` for `refusedShare`
 * @throws TypeError or RangeError naming the option or the store's missing method, also without any bound ·
 *   KeystileError STORE_POWER_MISSING
 * @example
 * const alerts = createAlerts(store, { creditsBelow: 100, deliver: (alert) => mail(alert) });
 */
export function createAlerts(given: Store, options: AlertsOptions): Alerts {
  checkStore(given);
  const settings = checkOptions(options, OPTIONS);
  deliverOption(settings.deliver, "options.deliver");
  const { workspaceId = DEFAULT_WORKSPACE, timeout = 10_000, interval = MINUTE, onError } = settings;
  const store = guardStore(given, settings.storeTimeout) as Required<Store>;
  const clock = guardClock(settings.clock ?? Date.now);
  for (const power of ["alerts", "search"] as const) requirePower(store, power, "createAlerts");
  methods("searchKeys", "changeAlerts", "listAlerts", "takeAlerts", "settleAlert")(store, "store");
  const rules = rulesOf(settings);
  const context = { store, workspaceId, clock, turns: createTurns() };
  const watches = rules.flatMap(({ name, ...bounds }) =>
    watchesOf(context, bounds).map((watch): Ruled => ({ ...watch, rule: name })),
  );
  const send = createSend(settings.deliver, timeout);
  let isClosed = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running: Promise<AlertRun> | undefined;
  /** Of this run. */
  let counts = { raised: 0, delivered: 0, failed: 0 };
  /** Milliseconds until the first of what is not delivered is due again. */
  let soonest = Infinity;

  const report = (error: unknown): void => {
    if (onError !== undefined) fireAndForget(() => onError(error));
  };
  const raise = async ({ kind, rule, past }: Ruled): Promise<void> => {
    for await (const found of past()) {
      if (isClosed) return;
      const changes = found.map(({ subject, from, said, bound }) => {
        const head = { id: newId("alert", from), time: from, workspaceId, ...(rule !== undefined && { rule }) };
        const body = JSON.stringify({ ...head, ...said, bound });
        return { workspaceId, kind, subject: subjectOf(rule, subject), from, until: clock(), body };
      });
      if (changes.length > 0) counts.raised += (await store.changeAlerts(changes)).filter(Boolean).length;
    }
  };
  const end = async ({ kind, rule, haveEnded }: Ruled): Promise<void> => {
    for (let after = 0; !isClosed;) {
      const rows = await store.listAlerts({ workspaceId, state: "raised", after, limit: PAGE });
      const mine = rows.filter((row) => row.kind === kind && readRaised(row).rule === rule);
      const from = clock();
      const ended = mine.length === 0 ? [] : await haveEnded(mine.map(readRaised), from);
      const of = { workspaceId, kind, from, until: clock() };
      const changes = mine.filter((_, i) => ended[i]).map(({ subject }) => ({ ...of, subject }));
      if (changes.length > 0) await store.changeAlerts(changes);
      if (rows.length < PAGE) return;
      after = (rows.at(-1) as AlertRow).number;
      // A store in this process answers within the turn.
      await nextTurn();
    }
  };
  /** @returns whether it was delivered */
  const deliverOne = async (row: AlertRow): Promise<boolean> => {
    const { number, tries, due } = row;
    let next: number | "delivered" | "dead" = "delivered";
    try {
      await send(toAlert(row));
      counts.delivered++;
    } catch (error) {
      counts.failed++;
      report(error);
      const pause = PAUSES[tries];
      next = pause === undefined ? "dead" : clock() + pause;
    }
    // Where this fails it is delivered again.
    await store.settleAlert({ number, due: due as number, next });
    return next === "delivered";
  };
  const deliver = async (): Promise<void> => {
    while (!isClosed) {
      const now = clock();
      const lease = { now, until: now + timeout + LEASE, endedBefore: now - FORGET_AFTER };
      const rows = await store.takeAlerts({ workspaceId, ...lease, limit: BATCH });
      const outcomes = await Promise.allSettled(rows.map(deliverOne));
      for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
      // Where nothing was delivered the others would fail as well: they wait for the next run.
      if (rows.length < BATCH || !outcomes.some((outcome) => "value" in outcome && outcome.value)) return;
    }
  };
  /** Also of what other processes took: if one of them ended, this one delivers it. */
  const findSoonest = async (): Promise<void> => {
    const now = clock();
    const rows = await store.listAlerts({ workspaceId, state: "pending", limit: PAGE });
    for (const { due = 0 } of rows) if (due > now) soonest = Math.min(soonest, due - now);
  };
  /** Does each, whatever becomes of the others. */
  const runAll = async (acts: readonly (() => Promise<void>)[]): Promise<AlertRun> => {
    counts = { raised: 0, delivered: 0, failed: 0 };
    soonest = Infinity;
    const failures: unknown[] = [];
    for (const act of acts) if (!isClosed) await act().catch((error: unknown) => failures.push(error));
    if (failures.length > 0) throw failures[0];
    return counts;
  };
  const start = (acts: readonly (() => Promise<void>)[]): Promise<AlertRun> =>
    (running ??= runAll(acts).finally(() => (running = undefined)));
  const all = [...watches.flatMap((watch) => [() => raise(watch), () => end(watch)]), deliver, findSoonest];
  const schedule = (ms: number, left: number): void => {
    if (isClosed || interval === 0) return;
    timer = startTimer(() => {
      const isWhole = left <= ms;
      void start(isWhole ? all : [deliver, findSoonest])
        .catch(report)
        .then(() => {
          const rest = isWhole ? interval : left - ms;
          schedule(Math.min(rest, soonest), rest);
        });
    }, ms);
  };
  schedule(Math.min(interval, SECOND), 0);
  return Object.freeze<Alerts>({
    run: () => start(all),
    async list(state, cursor = 0) {
      isState(state, "state");
      const rows = await store.listAlerts({ workspaceId, state, after: cursor, limit: PAGE });
      const alerts = rows.map((row): ListedAlert => {
        const { tries, due } = row;
        return { alert: toAlert(row), tries, ...(due !== undefined && { due }) };
      });
      return rows.length < PAGE ? { alerts } : { alerts, cursor: (rows.at(-1) as AlertRow).number };
    },
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await running?.catch(report);
    },
  });
}

/** A bound of a rule; undefined: of none. */
interface Ruled extends Watch {
  readonly rule: string | undefined;
}

/** Of each rule a subject has an alert of its own. No rule's name has a blank. */
function subjectOf(rule: string | undefined, subject: string): string {
  return rule === undefined ? subject : `${rule} ${subject}`;
}

/** The bounds that have no name, and the rules. @throws TypeError: there are none */
function rulesOf({ creditsBelow, expiresWithin, refusedShare, rules = [] }: AlertsOptions) {
  const bounds = { name: undefined, creditsBelow, expiresWithin, refusedShare };
  // Copied: what is changed in a rule afterwards changes nothing.
  const all = structuredClone([...(hasBound(bounds) ? [bounds] : []), ...rules]);
  if (all.length === 0) throw new TypeError(`options has no bound; ${BOUND_MISSING}, or rules`);
  return all;
}

/** @throws KeystileError STORE_POWER_MISSING */
function watchesOf(context: Watching, { creditsBelow, expiresWithin, refusedShare }: AlertBounds): Watch[] {
  if (refusedShare !== undefined) requirePower(context.store, "analytics", "options.refusedShare");
  return [
    ...(creditsBelow === undefined ? [] : [watchCredits(context, creditsBelow)]),
    ...(expiresWithin === undefined
      ? []
      : [watchExpiry(context, expiresWithin), watchOwnerExpiry(context, expiresWithin)]),
    ...(refusedShare === undefined ? [] : [watchRefusals(context, refusedShare)]),
  ];
}

const readRaised = ({ body }: AlertRow): Raised => JSON.parse(body) as Raised;

function toAlert(row: AlertRow): Alert {
  const { bound: _, ...alert } = readRaised(row);
  return alert;
}
