/**
 * Credits that a guard reserved for one request: the handler settles them, or the end of the response does, once.
 *
 * Why the end decides at all: a handler that forgets to settle, or throws before it does, must neither be free for good
 * nor keep a customer's credits until a time-out.
 */
import { startTimer } from "../lib/timers.js";
import type { Reservation, ReservationSettlement } from "../verify/reserve.js";

/** What becomes of credits that the handler has not settled when its response ends. */
export type Unsettled = "status" | "commit" | "release";

/** The reservation of a request. */
export interface Reserved {
  /** Keeps so many of the credits and returns the others. */
  commit(spent: number): Promise<ReservationSettlement>;
  /**
   * Call once the response has ended. Settles what the handler has not. Never rejects.
   * @param isCut the client has gone away: the handler has {@link AFTER_CUT} to settle, then this does
   */
  end(status: number, isCut?: boolean): Promise<void>;
}

/** Milliseconds for which a handler may settle once its client has gone away, or half of the reservation's time-out. */
export const AFTER_CUT = 60_000;

/** What a guard reserved, and how. */
export interface ReservedOptions {
  /** What was reserved. */
  readonly cost: number;
  readonly unsettled: Unsettled;
  /** Milliseconds after which the credits return. Absent: more than {@link AFTER_CUT}. */
  readonly reserveTimeout?: number | undefined;
  /** Is told why the end of a response could not settle: then the credits return at their time-out. */
  readonly onError: (error: unknown) => void;
}

/** The reservation of one request. */
export function createReserved(
  reservation: Reservation,
  { cost, unsettled, reserveTimeout = Infinity, onError }: ReservedOptions,
): Reserved {
  let settling: Promise<ReservationSettlement> | undefined;
  /** Ends the wait for the handler. */
  let wake = (): void => undefined;
  const commit = (spent: number): Promise<ReservationSettlement> => {
    const settled = reservation.commit(spent);
    const mine = settled.catch((error: unknown) => {
      // It is still open.
      if (settling === mine) settling = undefined;
      throw error;
    });
    // A second one is told that it is settled, and is not what the end waits for.
    settling ??= mine;
    wake();
    return mine;
  };
  return {
    commit,
    async end(status, isCut = false) {
      if (isCut && settling === undefined)
        await new Promise<void>((resolve) => {
          wake = resolve;
          startTimer(resolve, Math.min(AFTER_CUT, reserveTimeout / 2));
        });
      try {
        await settling;
      } catch {
        // The handler was told.
      }
      const isKept = unsettled === "commit" || (unsettled === "status" && status >= 200 && status < 400);
      if (settling === undefined) await commit(isKept ? cost : 0).catch(onError);
    },
  };
}

/**
 * A response with the same body, at whose end the credits are settled: before its last byte, so that a runtime that
 * stops after it has settled them. An upgrade goes on after this: its handler settles, or the time-out does.
 */
export function endingWith(response: Response, end: Reserved["end"]): Response | Promise<Response> {
  const { body, status } = response;
  if (status < 200) return response;
  if (body === null) return end(status).then(() => response);
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  let isCut = false;
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        // What is read of a stream that was cancelled goes nowhere, and neither ends nor fails the response.
        if (isCut) return;
        if (done) {
          await end(status);
          controller.close();
        } else controller.enqueue(value);
      } catch (error) {
        if (!isCut) await end(500);
        throw error;
      }
    },
    async cancel(reason) {
      isCut = true;
      await Promise.allSettled([reader.cancel(reason), end(status, true)]);
    },
  });
  return new Response(stream, response);
}

/** What is used of a response of Node. */
export interface NodeResponse {
  readonly statusCode: number;
  readonly headersSent: boolean;
  /** Whether `close` was emitted. */
  readonly closed?: boolean;
  /** Whether `finish` was. */
  readonly writableFinished?: boolean;
  once(event: "finish" | "close", listener: () => void): unknown;
}

/**
 * Settles at the end of a response of Node, which may have closed before: a client can go away while its key is
 * verified. One that ends before its headers were sent is as an error.
 */
export function endWith(response: NodeResponse, end: Reserved["end"]): void {
  let hasEnded = false;
  const settle = (isCut: boolean): void => {
    if (hasEnded) return;
    hasEnded = true;
    void end(response.headersSent ? response.statusCode : 500, isCut);
  };
  response.once("finish", () => settle(false));
  response.once("close", () => settle(true));
  if (response.closed === true) settle(response.writableFinished !== true);
}
