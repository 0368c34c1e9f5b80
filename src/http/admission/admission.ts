/**
 * Admission control: workspaces share fairly the memory and the time that requests may take.
 *
 * Memory is reserved before it is used: for a body as it arrives, for the text and values of a long body, for a page
 * while it is made, and for an answer until the client has read it. Bytes that a request has only announced are not
 * reserved. A request whose reservation does not fit its workspace's share waits, unparsed; if there is still no space
 * in time, it is refused with 503. Callers without a credential share a sixteenth of the memory, and so do credentials
 * not known to be valid. The number of requests is bounded too (`requests.ts`).
 */
import { Fingerprint } from "../../lib/fingerprint.js";
import type { MaybePromise } from "../../contracts/types.js";
import { createFairTurns, WEIGHT } from "./fair-turns.js";
import { FairPool, overloaded, STRANGERS, UNPROVEN } from "./fair-pool.js";
import { type Ongoing, Requests } from "./requests.js";

/** Bounds of {@link createAdmission}. */
export interface AdmissionBounds {
  /** Bytes that all requests hold together. */
  readonly budget: number;
  /** Requests under way at a time; default: one for each 64 KiB of the budget. */
  readonly requests?: number;
  /** Milliseconds that a request may wait for space, in all. */
  readonly wait: number;
  /** Whether workspaces are held to their shares. */
  readonly isFair: boolean;
  /** Most long bodies parsed at a time, and most pages made at a time. */
  readonly places: number;
  /** Milliseconds of each tick of the event loop during which requests are continued. */
  readonly turnMs: number;
}

export const MIB = 1_048_576;

/** The default bounds. */
export const ADMISSION_BOUNDS: AdmissionBounds = Object.freeze({
  budget: 256 * MIB,
  wait: 2_000,
  isFair: true,
  places: 2,
  turnMs: 4,
});

/** Memory of a request's objects in Node, headers and promises. Measured in Node 20: 5 to 7 KiB. */
const REQUEST_BYTES = 8_192;
/**
 * Bytes of the budget per request that may be under way: {@link REQUEST_BYTES} of all requests add an eighth to the
 * budget.
 */
const BYTES_PER_REQUEST = 8 * REQUEST_BYTES;
/** Bytes of an operation while it runs, with a short answer. */
const WORK_BYTES = 16_384;
/** Bytes of a page while it is made: its rows, their responses, and its text of at most 4 MiB. */
export const PAGE_BYTES = 16 * MIB;
/** The fraction of the budget that is kept for workspaces that hold very little. */
const PART_OF_RESERVE = 1 / 16;
/**
 * Arriving bodies may hold at most this fraction of the free budget: the values of bodies that have arrived must fit
 * too.
 */
const PART_OF_BODIES = 1 / 2;
/** Credentials whose workspace is remembered. */
const MAX_RECOGNIZED = 10_000;

/** Creates an {@link Admission}. */
export function createAdmission(bounds: AdmissionBounds) {
  const shared = shareOf(bounds);
  const { bytes, requests, turns } = shared;
  return {
    /**
     * Call when the head of a request has arrived.
     * @param authorization the header: its workspace is known if it was authenticated before
     * @param end ends the connection of the request, when too many are under way; absent: the host bounds them
     */
    arrive: (authorization: string | undefined, end?: () => void): Hold => createHold(shared, authorization, end),
    /** Ends the oldest request of the workspace that has the most of them. */
    makeSpace: (): void => requests.endOldest(),
    /** Call when other work waits for this tick to end: the tick then continues no requests. */
    hurry: turns.hurry,
    /** Bytes held. */
    held: (): number => bytes.held + requests.size * REQUEST_BYTES,
  };
}

/** The admission control of a process. */
export type Admission = ReturnType<typeof createAdmission>;

/** What one request holds. */
export type Hold = ReturnType<typeof createHold>;

/** What all requests share. */
function shareOf({ budget, requests = Math.floor(budget / BYTES_PER_REQUEST), ...bounds }: AdmissionBounds) {
  const { wait, isFair, places, turnMs } = bounds;
  return {
    bytes: new FairPool(budget, { isFair, reserve: budget * PART_OF_RESERVE }),
    parsing: new FairPool(places, { isFair }),
    making: new FairPool(places, { isFair }),
    requests: new Requests(requests),
    turns: createFairTurns(turnMs),
    recognized: createRecognized(),
    wait,
  };
}

function createHold(
  { bytes, parsing, making, requests, turns, recognized, wait }: ReturnType<typeof shareOf>,
  authorization: string | undefined,
  end?: () => void,
) {
  let account = authorization === undefined ? STRANGERS : recognized.find(authorization);
  let held = 0;
  let isAnswered = false;
  let body: { free(): number } | undefined;
  let isGone = false;
  let endWait: (() => void) | undefined;
  let began = NaN;
  /** Milliseconds left to wait, counted from the first wait. */
  const left = (): number => {
    const now = performance.now();
    if (Number.isNaN(began)) began = now;
    return wait - (now - began);
  };
  const onWait = (stop: () => void): void => {
    if (isGone) stop();
    else endWait = stop;
  };
  const abandon = (): void => {
    isGone = true;
    endWait?.();
  };
  const turn = (isLong: boolean): Promise<void> =>
    new Promise((resolve) => turns.wait(account, isLong ? WEIGHT.long : WEIGHT.short, resolve));
  /** Many requests may time out in the same tick, so their refusals take turns too. */
  const inTurn = async (error: unknown): Promise<never> => {
    await turn(false);
    throw error;
  };
  const grow = (amount: number, part: number): MaybePromise<void> => {
    const of = account;
    const taken = bytes.take(of, { amount, own: held, part }, left(), onWait);
    if (taken === undefined) return void (held += amount);
    return taken.then(() => {
      // The connection may have ended meanwhile, or the caller was authenticated.
      if (isGone) {
        bytes.give(of, amount);
        throw overloaded();
      }
      if (of !== account) bytes.move(of, account, amount);
      held += amount;
    }, inTurn);
  };
  const inPlace = async <T>(pool: FairPool, act: () => Promise<T>): Promise<T> => {
    const of = account;
    await pool.take(of, { amount: 1, own: 0, part: 1 }, left(), onWait)?.catch(inTurn);
    try {
      return await act();
    } finally {
      pool.give(of, 1);
    }
  };
  const set = (amount: number): void => {
    if (amount > held) bytes.record(account, amount - held);
    else bytes.give(account, held - amount);
    held = amount;
  };
  const moveTo = (other: string): void => {
    bytes.move(account, other, held);
    requests.remove(account, ongoing);
    account = other;
    if (end !== undefined && !isGone) requests.add(account, ongoing);
  };
  const release = (): void => {
    abandon();
    requests.remove(account, ongoing);
    body?.free();
    set(0);
  };
  const ongoing: Ongoing = {
    get isAnswered() {
      return isAnswered;
    },
    end() {
      requests.remove(account, ongoing);
      end?.();
      // A request that still runs is released with its answer.
      if (isAnswered) release();
      else abandon();
    },
  };
  if (end !== undefined) requests.add(account, ongoing);
  return {
    /** The caller's workspace as far as known, or {@link STRANGERS} or {@link UNPROVEN}. */
    get account(): string {
      return account;
    },
    /** Resolves at the end of this tick of the event loop, or of a later one if other requests go first. */
    turn,
    /** Call once the caller is authenticated. */
    belongsTo(workspaceId: string): void {
      if (workspaceId === account) return;
      moveTo(workspaceId);
      if (authorization !== undefined) recognized.add(authorization, workspaceId);
    },
    /** Call when the credential is found invalid: later requests with it count as {@link UNPROVEN}. */
    refused(): void {
      if (authorization === undefined || account === UNPROVEN) return;
      moveTo(UNPROVEN);
      recognized.forget(authorization);
    },
    /** Reserves bytes of the body. @throws (rejects) KeystileError OVERLOADED */
    growBody: (amount: number) => (amount > 0 ? grow(amount, PART_OF_BODIES) : undefined),
    /** Reserves the memory of an operation while it runs. @throws (rejects) KeystileError OVERLOADED */
    withinShare: () => grow(WORK_BYTES, 1),
    /** Reserves memory for the values of the body, before it is parsed. @throws (rejects) KeystileError OVERLOADED */
    growValues: (amount: number) => grow(amount, 1),
    /** Hands over the body: it is freed when the request ends, or before. @param of `free` returns its bytes */
    keepBody(of: { free(): number }): void {
      body = of;
      if (isGone) body.free();
    },
    freeBody(): void {
      if (body !== undefined) set(held - body.free());
    },
    /** Parses a long body; only a few are parsed at a time. @throws (rejects) KeystileError OVERLOADED */
    parse: <T>(act: () => Promise<T>): Promise<T> => inPlace(parsing, act),
    /** Makes a page; only a few are made at a time. @throws (rejects) KeystileError OVERLOADED */
    async makePage<T>(act: () => Promise<T>): Promise<T> {
      let growing: MaybePromise<void> = undefined;
      const made = await inPlace(making, async () => {
        growing = grow(PAGE_BYTES, 1);
        return growing === undefined ? { page: await act() } : undefined;
      });
      if (made !== undefined) return made.page;
      // While a page waits for space, its place is free for pages that have the space.
      await growing;
      return inPlace(making, act);
    },
    /**
     * Call when the answer is made: from now on the request holds only its answer. If the workspace is then over its
     * share, its oldest requests with unread answers are ended.
     */
    answered(amount: number): void {
      body?.free();
      endWait?.();
      const isMore = amount > held;
      set(amount);
      if (isMore) requests.endUnread(account, () => bytes.isOver(account));
      isAnswered = true;
    },
    /** Call when the connection has ended: ends the request's wait. */
    abandon,
    /** Call when the request has ended: frees all that it holds. */
    release,
  };
}

/** Remembers keyed fingerprints of 53 bits, not credentials; nobody can construct a collision. */
function createRecognized() {
  const fingerprint = new Fingerprint();
  const workspaces = new Map<number, string>();
  // Only of the credential: its scheme can be written in many ways, and each would take an entry.
  const numberOf = (authorization: string): number =>
    fingerprint.read(authorization.slice(authorization.lastIndexOf(" ") + 1))
      ? (fingerprint.h0 >>> 0) + (fingerprint.h1 & 0x1f_ffff) * 2 ** 32
      : NaN;
  return {
    /** The workspace of a credential that was authenticated, or {@link UNPROVEN}. It grants nothing. */
    find: (authorization: string): string => workspaces.get(numberOf(authorization)) ?? UNPROVEN,
    add(authorization: string, workspaceId: string): void {
      const number = numberOf(authorization);
      if (Number.isNaN(number)) return;
      if (workspaces.size >= MAX_RECOGNIZED) workspaces.delete(workspaces.keys().next().value as number);
      workspaces.set(number, workspaceId);
    },
    forget: (authorization: string): void => void workspaces.delete(numberOf(authorization)),
  };
}
