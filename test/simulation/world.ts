/**
 * A simulated world: clients of one store, what they wait for, and the judge. It makes one step at a time, as it is
 * told.
 */
import type { LimitCheck, Limiter } from "../../src/contracts/limiter.js";
import type { Change, Store, Write } from "../../src/contracts/store.js";
import { isKeystileError } from "../../src/contracts/errors.js";
import { createKeyring, type Keyring } from "../../src/keyring/keyring.js";
import { trust } from "../../src/lib/guards/trusted.js";
import { isThenable } from "../../src/lib/thenable.js";
import { memoryLimiter } from "../../src/ratelimit/memory/limiter.js";
import type { PostgresClient } from "../../src/stores/postgres/index.js";
import type { CreditsOptions, VerifierOptions } from "../../src/verify/verifier-options.js";
import { Client, type Flight } from "./client.js";
import { JUDGED, Ledger, type Note, type Taker } from "./ledger.js";
import { Limits, Readings } from "./limits.js";
import { type Fate, type PendingCall, yieldingLimiter, yieldingStore } from "./ports.js";
import { Records } from "./records.js";
import { settled, type VirtualTime } from "./virtual-time.js";
import { must } from "./violation.js";

/** Where clients find their store. */
export interface Bed {
  /** A client's handle: the one store, or another connection to its file. */
  open(): Store;
  /** Reads beside the clients. */
  readonly probe: Store;
  /**
   * Whether a find is only as new as the poll before it. Real calls find in the turn in which they polled, while here
   * any number of steps may lie between: so a find polls first.
   */
  readonly findsAsPolled?: boolean;
  /** Of a store of several nodes: its clients wait at each statement, not at each call. */
  readonly connections?: Connections;
  close(): unknown;
}

/** Handles of a database, each on connections that may fail. */
export interface Connections {
  /** The longest time for which a change of another client may stay unseen, milliseconds. */
  readonly bound: number;
  /** To set the world up. */
  readonly direct: Store;
  /** A client's handle. Its statements wait. @param plant a mistake between it and its yield points */
  open(client: Client, ledger: Ledger, plant: Plant["connection"]): Store;
  /** Runs a statement. @returns its result, and the calls that it carried */
  run(call: PendingCall): Promise<{ readonly result: unknown; readonly notes: readonly Note[] }>;
  /** Those that a statement notifies. */
  ringsOf(call: PendingCall): Iterable<readonly [client: Client, hear: () => void]>;
  /** Reads for the probe, which does not wait. */
  look(): Promise<void>;
}

/** A mistake put into the world on purpose. */
export interface Plant {
  /** In the store: below the judge. */
  readonly store?: (store: Store) => Store;
  /** In a client: between it and its yield points. */
  readonly client?: (store: Store) => Store;
  /** Between a client's handle and its connections. */
  readonly connection?: (client: PostgresClient) => PostgresClient;
  /** In a client's limiter, which is then a shared one. */
  readonly limiter?: (limiter: Limiter) => Limiter;
}

export interface Settings {
  /** How each slot takes credits. */
  readonly credits: readonly CreditsOptions[];
  /** Whether a client hears of the changes of others at once, or when it polls. */
  readonly hearsAtOnce: boolean;
  readonly isPollSync: boolean;
  /** Whether clients share a limiter that yields, or have one of their own that does not. */
  readonly sharesLimiter: boolean;
  /** Records that a client caches. */
  readonly cacheSize: number;
  /** Wall clock at the beginning. */
  readonly start: number;
  readonly plant?: Plant | undefined;
}

/** An operation of a client, and what its outcome must be. */
export interface Operation extends Flight {
  run(client: Client): Promise<unknown>;
  /** @param since the step at which it began */
  done?(client: Client, result: never, since: number): void;
  /** Error codes that it may end in without any fault. */
  readonly refusals?: readonly string[];
}

const DAY = 86_400_000;
const MAX_REST_STEPS = 20_000;
/** Calls that change what is found. */
const CHANGING = new Set(["write", "insertKeys", "adoptDigest"]);

export class World {
  step = 0;
  readonly slots: Client[] = [];
  /** Dead or closed ones, whose claims are still judged. */
  readonly gone: Client[] = [];
  /** Calls that are made although nobody waits for them any more. */
  readonly orphans: PendingCall[] = [];
  /** What calls have reserved: the id of the handle, and how much. */
  readonly reservations: { readonly id: string; readonly cost: number }[] = [];
  readonly ledger: Ledger;
  readonly records: Records;
  readonly limits: Limits;
  /** What happened, in words, without anything random: kept only if asked. */
  trace: string[] | undefined;
  readonly #sharedLimiter = memoryLimiter();
  readonly #sharedReadings = new Readings();
  #running = 0;
  #opened = 0;
  #violation: unknown;
  /** Operations, timers and calls that the end has to wait for. */
  #closing = new Set<Client>();

  constructor(
    readonly time: VirtualTime,
    readonly bed: Bed,
    readonly settings: Settings,
  ) {
    this.ledger = new Ledger(bed.probe);
    this.records = new Records(bed.probe, bed.connections !== undefined, (record) => this.ledger.learn(record));
    this.limits = new Limits(settings.sharesLimiter);
    settings.credits.forEach((_, slot) => this.open(slot));
  }

  /** Administration that does not yield: to set the world up. */
  async setUp(act: (keyring: Keyring) => Promise<void>): Promise<void> {
    const { connections, probe } = this.bed;
    const store = connections?.direct ?? probe;
    const { powers, ...methods } = store;
    const noted = Object.entries(methods).map(([name, method]: [string, (...given: never[]) => unknown]) => [
      name,
      async (...given: unknown[]) => {
        const result = await method(...(given as never[]));
        await connections?.look();
        this.#note(undefined, name, given, result, false);
        return result;
      },
    ]);
    const subscribe = (listener: (change: Change) => void) => store.subscribe(listener);
    const direct = trust({ ...(Object.fromEntries(noted) as unknown as Store), powers, subscribe });
    await act(createKeyring(direct, { clock: () => this.settings.start }));
  }

  open(slot: number): Client {
    const { credits, hearsAtOnce, isPollSync, cacheSize, start, plant = {}, sharesLimiter } = this.settings;
    const mode = credits[slot]!;
    const step = mode.mode === "leased" ? (mode.step ?? 0) : 0;
    const offset = this.slots[slot]?.offset ?? start;
    const readings = sharesLimiter ? this.#sharedReadings : new Readings();
    const client = new Client(this.#opened++, step, hearsAtOnce, this.time, offset, readings);
    const { connections } = this.bed;
    const handle = connections?.open(client, this.ledger, plant.connection) ?? this.bed.open();
    const planted = plant.store?.(handle) ?? handle;
    this.#handles.set(client, planted);
    const yielding = connections === undefined ? yieldingStore(client, planted, isPollSync) : planted;
    const store = plant.client?.(yielding) ?? yielding;
    const limiter = plant.limiter?.(yieldingLimiter(client)) ?? yieldingLimiter(client);
    const options: VerifierOptions = {
      clock: client.clock,
      credits: mode.mode === "leased" && !handle.powers.reserves ? { ...mode, size: step } : mode,
      cache: { size: cacheSize },
      // The longest that can be set: deadlines of limiters are in real time, and must not end a call before the
      // scheduler does.
      ...(sharesLimiter && { limiter, limiterTimeout: 600_000 }),
    };
    client.opens = { store, options };
    this.slots[slot] = client;
    return client;
  }

  readonly #handles = new Map<Client, Store>();

  /** All calls that wait, in a fixed order. */
  calls(): PendingCall[] {
    return [...this.slots, ...this.#closing].flatMap((client) => client.calls);
  }

  /** A client that is not dead. */
  client(ordinal: number): Client | undefined {
    return [...this.slots, ...this.#closing].find((client) => client.ordinal === ordinal);
  }

  get inFlight(): number {
    return this.slots.reduce((sum, client) => sum + client.flights.size, 0);
  }

  /** Begins an operation. */
  async begin(client: Client, operation: Operation): Promise<void> {
    this.#tell(() => `${client.name} begins ${operation.name}`);
    this.step++;
    const since = this.step;
    const faults = client.faults;
    client.flights.add(operation);
    this.time.owner = client;
    const end = (judge: () => void): void => {
      if (client.isDead) return;
      client.flights.delete(operation);
      try {
        judge();
      } catch (violation) {
        this.#violation ??= violation;
      }
    };
    operation.run(client).then(
      (result) =>
        end(() => {
          this.#tell(() => `${client.name} ends ${operation.name}: ${sketch(result)}`);
          operation.done?.(client, result as never, since);
        }),
      (error: unknown) =>
        end(() => {
          const code = isKeystileError(error) ? error.code : String(error);
          this.#tell(() => `${client.name} fails ${operation.name}: ${code}`);
          if (operation.refusals?.includes(code) === true) return;
          must(isKeystileError(error) && client.faults > faults, "error", () => `${operation.name} failed: ${code}`);
        }),
    );
    await this.#rest();
  }

  /** Lets a call go on: to the store, or back to its caller. */
  async advance(call: PendingCall): Promise<void> {
    this.#tell(() => `${call.client.name} ${call.phase === "before" ? "calls" : "hears from"} ${call.method}`);
    this.step++;
    this.time.owner = call.client;
    if (call.phase === "before") this.#make(call);
    else this.#deliver(call);
    await this.#rest();
  }

  /** Lets a call go wrong before it reaches the store. */
  async fail(call: PendingCall, fate: Fate): Promise<void> {
    this.#tell(() => `${call.client.name}'s ${call.method} is ${fate}`);
    this.step++;
    this.time.owner = call.client;
    call.client.faults++;
    if (fate === "lost") {
      call.isLost = true;
      this.#make(call);
    } else if (fate === "late") {
      remove(call.client.calls, call);
      this.orphans.push({ ...call, isLost: true });
      call.reject(call.errorOf(fate));
    } else {
      call.phase = "after";
      call.deliver = () => this.#refuse(call, fate);
    }
    await this.#rest();
  }

  /** Makes a call for which nobody waits. */
  async makeOrphan(call: PendingCall): Promise<void> {
    this.#tell(() => `${call.client.name}'s ${call.method} arrives late`);
    this.step++;
    remove(this.orphans, call);
    this.time.owner = call.client;
    this.#make(call);
    await this.#rest();
  }

  /** The next timer of a client, or of any, fires; time passes for all until it is due. */
  async fire(client?: Client): Promise<boolean> {
    const timer = this.time.next(client);
    if (timer === undefined) return false;
    const owner = timer.owner as Client;
    this.#tell(() => `a timer of ${owner.name} fires`);
    this.step++;
    // It may be the deadline of a statement that waits.
    if (this.bed.connections !== undefined && owner.calls.length > 0) owner.faults++;
    this.time.fire(timer);
    this.#times.push([this.step, this.time.now]);
    await this.#rest();
    return true;
  }

  /** Time passes: no timer fires yet. */
  wait(milliseconds: number): void {
    this.#tell(() => `${milliseconds} ms pass`);
    this.step++;
    this.time.now += milliseconds;
    this.#times.push([this.step, this.time.now]);
  }

  /** When time passed: the step, and the time from then on. */
  readonly #times: (readonly [step: number, now: number])[] = [[0, 0]];

  /**
   * The first step of which a call that begins at `step` must know: a store of several nodes may be late by its bound.
   */
  knownFrom(step: number): number {
    const { connections } = this.bed;
    if (connections === undefined) return step;
    const at = this.#times.findLast(([from]) => from <= step)![1];
    const next = this.#times.findIndex(([, now]) => now > at - connections.bound);
    return Math.min(step, this.#times[next]![0]);
  }

  /** Whether the clock of a client ever jumped by a day or more. */
  hasJumpedFar = false;

  /** The clock of one client jumps. */
  jump(client: Client, milliseconds: number): void {
    this.#tell(() => `the clock of ${client.name} jumps by ${milliseconds} ms`);
    this.step++;
    client.offset += milliseconds;
    this.hasJumpedFar ||= Math.abs(milliseconds) >= DAY;
  }

  /** A client dies between two steps; another takes its place. Calls that it had sent may still arrive. */
  crash(slot: number, sent: (call: PendingCall, index: number) => boolean): void {
    const client = this.slots[slot]!;
    this.#tell(() => `${client.name} crashes`);
    this.step++;
    client.calls.forEach((call, i) => {
      if (call.phase === "before" && sent(call, i)) this.orphans.push({ ...call, isLost: true });
    });
    client.die();
    this.time.drop(client);
    this.gone.push(client);
    this.open(slot);
  }

  /** A client closes; another takes its place meanwhile. */
  async close(slot: number): Promise<void> {
    const client = this.slots[slot]!;
    this.#closing.add(client);
    this.open(slot);
    await this.#closeClient(client);
  }

  /** Everything comes to rest: calls go through, clients close, and the books must balance. */
  async finish(): Promise<void> {
    await this.#drain(() => this.inFlight + this.#closingFlights() > 0);
    for (const client of this.slots.splice(0)) {
      this.#closing.add(client);
      await this.#closeClient(client);
    }
    // Returns that failed are tried again until they succeed, after `close` has given up waiting too.
    await this.#drain(() => this.#closingFlights() > 0 || this.time.next() !== undefined);
    this.ledger.close();
    const clients = [...this.#closing, ...this.gone];
    this.ledger.assertSettled((accountId) => {
      const claims = clients.flatMap(({ isDead, claims }) => {
        const claim = claims.get(accountId);
        return claim === undefined ? [] : [{ isDead, ...claim }];
      });
      return claims.some(({ isDead }) => isDead) ? undefined : claims.reduce((sum, { slack }) => sum + slack, 0);
    });
    for (const client of clients) client.assertSettled();
  }

  async #drain(isBusy: () => boolean): Promise<void> {
    for (let steps = 0; ; steps++) {
      must(steps < MAX_REST_STEPS, "rest", () => `calls still wait after ${MAX_REST_STEPS} steps: ${this.#waiting()}`);
      const [call] = this.calls();
      const [orphan] = this.orphans;
      if (call !== undefined) await this.advance(call);
      else if (orphan !== undefined) await this.makeOrphan(orphan);
      else if (!isBusy()) return;
      else must(await this.fire(), "rest", () => "an operation waits for nothing");
    }
  }

  /** What has not come to rest, for the message. */
  #waiting(): string {
    const calls = this.calls().map(({ method, phase }) => `${method} ${phase}`);
    const flights = [...this.slots, ...this.#closing].map(({ flights }) => flights.size);
    const timer = this.time.next();
    return `calls [${calls.join()}], operations in flight [${flights.join()}], next timer ${timer === undefined ? "none" : `at ${timer.due}, it is ${this.time.now}`}`;
  }

  #closingFlights(): number {
    return [...this.#closing].reduce((sum, client) => sum + client.flights.size, 0);
  }

  #closeClient(client: Client): Promise<void> {
    client.isClosing = true;
    const operation: Operation = {
      name: "close",
      run: () => client.close(),
      // Whatever it waited for must be explained by a fault.
      refusals: client.faults > 0 ? ["CREDITS_NOT_RETURNED"] : [],
    };
    return this.begin(client, operation);
  }

  #make(call: PendingCall): void {
    const { client, method, given } = call;
    const { connections } = this.bed;
    const answer = (settle: () => void): void => {
      call.phase = "after";
      call.deliver = call.isLost ? () => this.#refuse(call, "lost") : settle;
    };
    const fulfil = (result: unknown, judge = () => this.#note(client, method, given, result, call.isLost)): void => {
      try {
        judge();
      } catch (violation) {
        this.#violation ??= violation;
      }
      answer(() => call.resolve(result));
    };
    const fail = (error: unknown): void => answer(() => call.reject(error));
    if (connections !== undefined && method !== "take") {
      this.#running++;
      const run = async (): Promise<void> => {
        try {
          const { result, notes } = await connections.run(call);
          fulfil(result, () => this.#noteAll(client, method, notes));
        } catch (error) {
          fail(error);
        }
        for (const [other, hear] of connections.ringsOf(call)) {
          this.time.owner = other;
          hear();
          await settled();
        }
      };
      void run().finally(() => this.#running--);
      return;
    }
    client.isWriting = true;
    try {
      const result = this.#call(client, method, given);
      if (isThenable(result)) {
        this.#running++;
        result.then(fulfil, fail).finally(() => this.#running--);
      } else fulfil(result);
    } catch (error) {
      fail(error);
    } finally {
      client.isWriting = false;
    }
  }

  #call(client: Client, method: string, given: readonly unknown[]): unknown {
    if (method === "take") return this.#sharedLimiter.take(...(given as [LimitCheck[], number]));
    const store = this.#handles.get(client) as unknown as Record<string, (...given: readonly unknown[]) => unknown>;
    if (this.bed.findsAsPolled === true && method.startsWith("find")) store["pollChanges"]!("anew");
    const result = store[method]!(...given);
    if (method === "pollChanges") client.hear();
    return result;
  }

  #deliver(call: PendingCall): void {
    remove(call.client.calls, call);
    call.deliver?.();
  }

  /** Other calls of the client may have waited for this one: its failure is theirs from now on. */
  #refuse(call: PendingCall, fate: Fate): void {
    call.client.faults++;
    call.reject(call.errorOf(fate));
  }

  #note(client: Client | undefined, method: string, given: readonly unknown[], result: unknown, isLost: boolean): void {
    if (JUDGED.has(method)) this.ledger.note(client ?? NOBODY, method, given, result, isLost);
    this.#assertUndrawn(method, given, result);
    if (CHANGING.has(method)) this.records.refresh(this.step);
  }

  /** Before the records are read anew: as they were when an identity was removed. */
  #assertUndrawn(method: string, given: readonly unknown[], result: unknown): void {
    if (method !== "write" || result !== "written") return;
    for (const write of given[0] as readonly Write[])
      if (write.table === "identities" && "remove" in write) this.records.assertUndrawn(write.remove);
  }

  #noteAll(client: Client, method: string, notes: readonly Note[]): void {
    this.ledger.noteAll(client, notes);
    for (const note of notes) this.#assertUndrawn(note.method, note.given, note.result);
    if (CHANGING.has(method)) this.records.refresh(this.step);
  }

  /**
   * Runs whatever can run before the scheduler's next choice. A call of a real file ends first, so calls of one group
   * commit are not interleaved among themselves.
   */
  async #rest(): Promise<void> {
    do await settled();
    while (this.#running > 0 || this.time.immediates > 0);
    this.time.owner = undefined;
    if (this.#violation !== undefined) throw this.#violation as Error;
  }

  #tell(line: () => string): void {
    this.trace?.push(`${this.step + 1}. ${line()}`);
  }
}

const NOBODY: Taker = { took: () => undefined, drew: () => undefined, ended: () => undefined };

function remove<T>(items: T[], item: T): void {
  const at = items.indexOf(item);
  if (at >= 0) items.splice(at, 1);
}

/** A result without what is random in it. */
function sketch(result: unknown): string {
  const text = JSON.stringify(result, (name, value: unknown) =>
    /^(keyId|apiId|rerolledFrom|rerolledTo|key|start|id|identityId|roleId|permissionId)$/.test(name) ? "…" : value,
  );
  return (text ?? "nothing").slice(0, 200);
}
