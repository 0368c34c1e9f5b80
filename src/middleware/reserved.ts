/**
 * Credits that a guard reserved for one request: the handler settles them, or the end of the response does, once.
 *
 * Why the end decides at all: a handler that forgets to settle, or throws before it does, must neither be free for good
 * nor keep a customer's credits until a time-out.
 */
import type { Reservation, ReservationSettlement } from "../verify/reserve.js";

/** What becomes of credits that the handler has not settled when its response ends. */
export type Unsettled = "status" | "commit" | "release";

/** The reservation of a request. */
export interface Reserved {
  /** Keeps so many of the credits and returns the others. */
  commit(spent: number): Promise<ReservationSettlement>;
  /** Call once the response has ended. Settles what the handler has not. Never rejects. */
  end(status: number): Promise<void>;
}

/**
 * @param cost what was reserved
 * @param onError is told why the end of a response could not settle: then the credits return at their time-out
 */
export function createReserved(
  reservation: Reservation,
  cost: number,
  unsettled: Unsettled,
  onError: (error: unknown) => void,
): Reserved {
  let settling: Promise<ReservationSettlement> | undefined;
  const commit = (spent: number): Promise<ReservationSettlement> => {
    const settled = reservation.commit(spent);
    const mine = settled.catch((error: unknown) => {
      // It is still open.
      if (settling === mine) settling = undefined;
      throw error;
    });
    // A second one is told that it is settled, and is not what the end waits for.
    settling ??= mine;
    return mine;
  };
  return {
    commit,
    async end(status) {
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
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          await end(status);
          controller.close();
        } else controller.enqueue(value);
      } catch (error) {
        await end(500);
        throw error;
      }
    },
    // A client that goes away has been served as far as it wanted.
    async cancel(reason) {
      await Promise.allSettled([reader.cancel(reason), end(status)]);
    },
  });
  return new Response(stream, response);
}

/** What is used of a response of Node. */
export interface NodeResponse {
  readonly statusCode: number;
  readonly headersSent: boolean;
  once(event: "finish" | "close", listener: () => void): unknown;
}

/** Settles at the end of a response of Node. One that ends before its headers were sent is as an error. */
export function endWith(response: NodeResponse, end: Reserved["end"]): void {
  let hasEnded = false;
  const settle = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    void end(response.headersSent ? response.statusCode : 500);
  };
  response.once("finish", settle);
  response.once("close", settle);
}
