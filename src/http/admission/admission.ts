/**
 * What requests may hold: every byte that a caller causes is reserved before it is held, in one budget of the process
 * of which each workspace has its fair share, and callers without a credential a small one together. What does not fit
 * waits, unparsed, and is then refused with 503. Nothing that was admitted is ended for another's sake.
 *
 * A request holds what its host has of it when it arrives; its body, in a buffer that grows; the text and the values of
 * a long body, by what was counted in it; a page while it is made; and its answer until the client has read it.
 */
import { Fingerprint } from "../../lib/fingerprint.js";
import type { MaybePromise } from "../../contracts/types.js";
import { createFairTurns, WEIGHT } from "./fair-turns.js";
import { FairPool, NEWCOMERS, overloaded, STRANGERS } from "./fair-pool.js";

/** Bounds of {@link createAdmission}. */
export interface AdmissionBounds {
  /** Bytes that all requests hold together. */
  readonly budget: number;
  /** Milliseconds that a request waits in all. */
  readonly wait: number;
  /** Whether accounts are held to their shares. */
  readonly isFair: boolean;
  /** Long bodies parsed at a time, and pages made at a time: one of a workspace, while others have none. */
  readonly places: number;
  /** Milliseconds for which requests are begun in one turn of the event loop. */
  readonly turnMs: number;
}

export const MIB = 1_048_576;

/** The bounds unless an option says otherwise. */
export const ADMISSION_BOUNDS: AdmissionBounds = Object.freeze({
  budget: 256 * MIB,
  wait: 2_000,
  isFair: true,
  places: 2,
  turnMs: 4,
});

/** Of a request without its body: objects of the host, headers, promises. Measured in Node 20: 5 to 7 KiB. */
const REQUEST_BYTES = 8_192;
/** Of a body that nobody reads yet: what a host reads ahead of a connection. */
const READ_AHEAD_BYTES = 65_536;
/** A page while it is made: its rows, their responses, and its text of at most 4 MiB. */
export const PAGE_BYTES = 16 * MIB;
/**
 * Of what is free, the part that arriving bodies may hold as much as: the values of those that have come must fit too.
 */
const PART_OF_BODIES = 1 / 2;
/** Credentials whose workspace is remembered. */
const MAX_RECOGNIZED = 10_000;

/** What one request holds. */
export interface Hold {
  /** Whether its account was within its share when it arrived. */
  readonly isWithin: boolean;
  /** Its workspace as far as known, or {@link STRANGERS} or {@link NEWCOMERS}. */
  readonly account: string;
  /** Continues at the end of this turn of the event loop, or of a later one. */
  turn(isLong: boolean): Promise<void>;
  /** Its caller was authenticated. */
  belongsTo(workspaceId: string): void;
  /** Its credential is not valid, or is no longer: it and the next ones with it are nobody's. */
  refused(): void;
  /** Before more of its body is held. @throws (rejects) KeystileError OVERLOADED */
  growBody(bytes: number): MaybePromise<void>;
  /** Before it does what it asks: its answer may be long. @throws (rejects) KeystileError OVERLOADED */
  withinShare(): MaybePromise<void>;
  /** Before its body is parsed. @throws (rejects) KeystileError OVERLOADED */
  growValues(bytes: number): MaybePromise<void>;
  /** Its body is there: it is freed with what is held, or before. @param body of which `free` says how long it was */
  keepBody(body: { free(): number }): void;
  freeBody(): void;
  /** Parses its long body, of which a few are parsed at a time. @throws (rejects) KeystileError OVERLOADED */
  parse<T>(act: () => Promise<T>): Promise<T>;
  /** Makes its page, of which a few are made at a time. @throws (rejects) KeystileError OVERLOADED */
  makePage<T>(act: () => Promise<T>): Promise<T>;
  /** It holds its answer and nothing else, which may be more than its share: the next ones wait for it. */
  answered(bytes: number): void;
  /** Its connection has ended: it waits for nothing any more. */
  abandon(): void;
  /** It holds nothing any more. */
  release(): void;
}

/** The budget of a process. */
export interface Admission {
  /**
   * A request has arrived.
   * @param authorization its header, by which its workspace is recognized if it was authenticated before
   * @param bodyBytes of its body, as far as declared; what its host reads ahead of them is held already
   */
  arrive(authorization: string | undefined, bodyBytes: number): Hold;
  /** Others wait for this turn of the event loop to end: less than usual goes on in it. */
  hurry(): void;
  /** Bytes held. */
  held(): number;
}

/** Creates an {@link Admission}. */
export function createAdmission({ budget, wait, isFair, places, turnMs }: AdmissionBounds): Admission {
  const bytes = new FairPool(budget, isFair);
  const parsing = new FairPool(places, isFair);
  const making = new FairPool(places, isFair);
  const turns = createFairTurns(turnMs);
  const recognized = createRecognized();

  const hold = (authorization: string | undefined, arriving: number): Hold => {
    let account = authorization === undefined ? STRANGERS : recognized.find(authorization);
    let held = arriving;
    let body: { free(): number } | undefined;
    let isGone = false;
    let endWait: (() => void) | undefined;
    let began = NaN;
    /** Milliseconds left to wait, from its first wait on. */
    const left = (): number => {
      const now = performance.now();
      if (Number.isNaN(began)) began = now;
      return wait - (now - began);
    };
    const onWait = (end: () => void): void => {
      if (isGone) end();
      else endWait = end;
    };
    const abandon = (): void => {
      isGone = true;
      endWait?.();
    };
    const turn = (isLong: boolean): Promise<void> =>
      new Promise((resolve) => turns.wait(account, isLong ? WEIGHT.long : WEIGHT.short, resolve));
    /** Those that waited equally long are refused at once: their answers are made in turns. */
    const inTurn = async (error: unknown): Promise<never> => {
      await turn(false);
      throw error;
    };
    const grow = (amount: number, part: number): MaybePromise<void> => {
      const of = account;
      const taken = bytes.take(of, { amount, own: held, part }, left(), onWait);
      if (taken === undefined) return void (held += amount);
      return taken.then(() => {
        // While it waited, its connection ended, or its caller was authenticated.
        if (isGone) {
          bytes.give(of, amount);
          throw overloaded();
        }
        if (of !== account) {
          bytes.record(account, amount);
          bytes.give(of, amount);
        }
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
      bytes.give(account, held);
      account = other;
      bytes.record(account, held);
    };
    return {
      isWithin: bytes.record(account, arriving),
      get account() {
        return account;
      },
      turn,
      belongsTo(workspaceId) {
        if (workspaceId === account) return;
        moveTo(workspaceId);
        if (authorization !== undefined) recognized.add(authorization, workspaceId);
      },
      refused() {
        if (authorization === undefined || account === NEWCOMERS) return;
        moveTo(NEWCOMERS);
        recognized.forget(authorization);
      },
      growBody: (amount) => grow(amount, PART_OF_BODIES),
      withinShare: () => grow(0, 1),
      growValues: (amount) => grow(amount, 1),
      keepBody(of) {
        body = of;
        if (isGone) body.free();
      },
      freeBody() {
        if (body !== undefined) set(held - body.free());
      },
      parse: (act) => inPlace(parsing, act),
      async makePage(act) {
        let growing: MaybePromise<void> = undefined;
        const made = await inPlace(making, async () => {
          growing = grow(PAGE_BYTES, 1);
          return growing === undefined ? { page: await act() } : undefined;
        });
        if (made !== undefined) return made.page;
        // Whoever waits for space has no place meanwhile: others may have the space.
        await growing;
        return inPlace(making, act);
      },
      answered(amount) {
        body?.free();
        endWait?.();
        set(REQUEST_BYTES + amount);
      },
      abandon,
      release() {
        abandon();
        body?.free();
        set(0);
      },
    };
  };
  return {
    arrive: (authorization, bodyBytes) => hold(authorization, REQUEST_BYTES + Math.min(bodyBytes, READ_AHEAD_BYTES)),
    hurry: turns.hurry,
    held: () => bytes.held,
  };
}

interface Recognized {
  /** The workspace of a credential that was authenticated, or {@link NEWCOMERS}. Grants nothing: it only sorts. */
  find(authorization: string): string;
  add(authorization: string, workspaceId: string): void;
  forget(authorization: string): void;
}

/** By keyed fingerprints of 53 bits: no credential is kept, and none that collides can be made. */
function createRecognized(): Recognized {
  const fingerprint = new Fingerprint();
  const workspaces = new Map<number, string>();
  // Of the credential alone: its scheme may be written in many ways, each of which would have a place here.
  const numberOf = (authorization: string): number =>
    fingerprint.read(authorization.slice(authorization.lastIndexOf(" ") + 1))
      ? (fingerprint.h0 >>> 0) + (fingerprint.h1 & 0x1f_ffff) * 2 ** 32
      : NaN;
  return {
    find: (authorization) => workspaces.get(numberOf(authorization)) ?? NEWCOMERS,
    add(authorization, workspaceId) {
      const number = numberOf(authorization);
      if (Number.isNaN(number)) return;
      if (workspaces.size >= MAX_RECOGNIZED)
        for (const oldest of workspaces.keys()) {
          workspaces.delete(oldest);
          break;
        }
      workspaces.set(number, workspaceId);
    },
    forget: (authorization) => void workspaces.delete(numberOf(authorization)),
  };
}
