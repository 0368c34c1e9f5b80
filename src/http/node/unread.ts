/** Answers that clients have not read yet: their bytes are bounded, and a client that reads nothing is cut off. */

/** The part of a socket that is used. */
export interface ReadingSocket {
  /** After so many milliseconds without progress Node ends the connection; 0: never. */
  setTimeout(milliseconds: number): unknown;
  destroy(): unknown;
}

/** Bounds of {@link createUnread}. */
export interface UnreadBounds {
  /** Milliseconds without progress after which a connection is cut. */
  readonly timeout: number;
  /** Bytes of all connections together. */
  readonly maxBytes: number;
}

/** The answers of a server that wait to be read. */
export interface Unread {
  /** An answer was handed to the socket. */
  add(socket: ReadingSocket, bytes: number): void;
  /**
   * The client has read it, or never will.
   * @param isBusy whether the connection has further requests; otherwise Node has set its timeout for idle ones
   */
  remove(socket: ReadingSocket, bytes: number, isBusy: boolean): void;
  /** Call it every second or so: from then on a connection that still waits has `timeout` for the next bytes. */
  sweep(): void;
}

interface Waiting {
  bytes: number;
  /** Whether the socket's timeout is set. */
  isTimed: boolean;
}

/**
 * Why not a timeout of every socket from the start: most answers are read at once, and setting one each time would cost
 * more than it guards. Beyond `maxBytes` the connection with most bytes is cut: one that takes much and reads little.
 */
export function createUnread({ timeout, maxBytes }: UnreadBounds): Unread {
  const sockets = new Map<ReadingSocket, Waiting>();
  let total = 0;
  const cutLargest = (): void => {
    let largest: ReadingSocket | undefined;
    let most = 0;
    for (const [socket, { bytes }] of sockets) if (bytes > most) [largest, most] = [socket, bytes];
    if (largest === undefined) return;
    sockets.delete(largest);
    total -= most;
    largest.destroy();
  };
  return {
    add(socket, bytes) {
      const waiting = sockets.get(socket);
      if (waiting === undefined) sockets.set(socket, { bytes, isTimed: false });
      else waiting.bytes += bytes;
      total += bytes;
      while (total > maxBytes && sockets.size > 0) cutLargest();
    },
    remove(socket, bytes, isBusy) {
      const waiting = sockets.get(socket);
      // It was cut.
      if (waiting === undefined) return;
      waiting.bytes -= bytes;
      total -= bytes;
      if (waiting.bytes > 0) return;
      sockets.delete(socket);
      if (waiting.isTimed && isBusy) socket.setTimeout(0);
    },
    sweep() {
      for (const [socket, waiting] of sockets) {
        if (waiting.isTimed) continue;
        waiting.isTimed = true;
        socket.setTimeout(timeout);
      }
    },
  };
}
