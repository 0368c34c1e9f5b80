/** The connections of a server: their number, that of each address, and which one is closed for a further one. */
import type { KeystileError } from "../../contracts/errors.js";
import { Ranking } from "../../lib/ranking.js";
import type { Admission } from "../admission/admission.js";
import { type Address, type ArrivedRequest, type Connection, ENDED, OpenConnection } from "./connection.js";
import { createPacedReads, newLane, type PacedReads } from "./paced-reads.js";

/** Bounds of {@link Connections}. */
export interface ConnectionBounds {
  /**
   * Connections at a time. For a further one, a connection of the address with the most idle connections is closed, the
   * one that has been idle longest; or, if at most a sixteenth of `max` are idle, the oldest request of the workspace
   * with the most requests is ended. For an address that has more than a sixteenth, the bound is fifteen sixteenths,
   * and only its own idle connections are closed.
   */
  readonly max: number;
  /** Connections of one address at a time; `undefined` addresses are not counted. */
  readonly maxPerAddress: number;
  /** Whether another connection is closed to make space for a new one; false: the new one is closed. */
  readonly evicts: boolean;
}

/** The default bounds. */
export const CONNECTION_BOUNDS: ConnectionBounds = Object.freeze({
  max: Infinity,
  maxPerAddress: Infinity,
  evicts: true,
});

/** The name of connections that count for no address, and their idle ones where there are none. */
const UNCOUNTED = "";
const NONE: ReadonlySet<OpenConnection> = new Set();

/** The connections of a server. */
export class Connections {
  readonly #bounds: ConnectionBounds;
  readonly #admission: Pick<Admission, "hurry" | "makeSpace">;
  readonly #reads: PacedReads = createPacedReads();
  readonly #open = new Map<Connection, OpenConnection>();
  readonly #addresses = new Map<string, Address>();
  /** Counted addresses by their idle connections. */
  readonly #idle = new Ranking<Address>();
  /** An address with more connections than this leaves as many places to others. */
  readonly #share: number;

  /** @param admission `hurry` and `makeSpace` are called when connections arrive, and when there are too many */
  constructor(bounds: ConnectionBounds, admission: Pick<Admission, "hurry" | "makeSpace">) {
    this.#bounds = bounds;
    this.#admission = admission;
    this.#share = Math.max(1, bounds.max / 16);
  }

  /**
   * Call when a connection was accepted; if there are too many, one is closed. @param address undefined: not counted
   */
  open(socket: Connection, address: string | undefined): void {
    // The system hands over one connection per tick, so connections of others wait behind this one.
    this.#reads.hurry();
    this.#admission.hurry();
    const connection = this.#of(socket, address);
    connection.stop();
    this.#reads.wait(connection);
    const { max, maxPerAddress, evicts } = this.#bounds;
    const { connections, idle: own } = connection.address;
    const isOver = address !== undefined && connections > maxPerAddress;
    const isLarge = address !== undefined && connections > this.#share;
    if (!isOver && this.#open.size <= (isLarge ? max - Math.floor(max / 16) : max)) return;
    const uncounted = this.#addresses.get(UNCOUNTED)?.idle ?? NONE;
    const most = this.#idle.largest()?.idle ?? NONE;
    // With a single idle connection the address may be that of this very connection.
    const [oldest] = isOver || isLarge ? own : most.size > 1 || uncounted.size === 0 ? most : uncounted;
    if (!evicts) socket.destroy();
    else if (isOver || isLarge || this.#idle.total + uncounted.size > this.#share) oldest?.socket.destroy();
    else this.#admission.makeSpace();
  }

  /** Registers a request; it is served after the connection's earlier requests. */
  begin(socket: Connection, arrived: ArrivedRequest): void {
    // A program may pass a request on late. The socket is gone: it would never be forgotten.
    if (socket.destroyed && !this.#open.has(socket)) {
      arrived.serve(ENDED);
      return;
    }
    const connection = this.#of(socket, socket.remoteAddress);
    this.#removeIdle(connection);
    connection.begin(arrived);
  }

  /** Fails a connection. @param answer sends the error if no pending request can respond with it */
  breakOff(socket: Connection, fault: KeystileError, answer: () => void): void {
    const connection = this.#open.get(socket);
    if (connection === undefined) answer();
    else connection.fail(fault, answer);
  }

  /**
   * Call every second or so: a connection with an unread answer is then closed after this long without progress. Why
   * not a timeout per answer: most answers are read at once, and setting one for each would cost too much.
   */
  sweep(milliseconds: number): void {
    for (const connection of this.#open.values()) connection.expire(milliseconds);
  }

  #of(socket: Connection, name = UNCOUNTED): OpenConnection {
    const known = this.#open.get(socket);
    if (known !== undefined) return known;
    const address = this.#addressOf(name);
    address.connections++;
    const connection = new OpenConnection(socket, address, this.#reads, (idle) => this.#addIdle(idle));
    this.#open.set(socket, connection);
    this.#addIdle(connection);
    socket.on("close", () => {
      this.#open.delete(socket);
      this.#removeIdle(connection);
      if (--address.connections === 0) this.#addresses.delete(name);
      connection.ended();
    });
    return connection;
  }

  #addressOf(name: string): Address {
    const known = this.#addresses.get(name);
    if (known !== undefined) return known;
    const address = { name, connections: 0, idle: new Set<OpenConnection>(), calm: newLane(), others: newLane() };
    this.#addresses.set(name, address);
    return address;
  }

  #addIdle(connection: OpenConnection): void {
    const { address } = connection;
    if (address.name !== UNCOUNTED && !address.idle.has(connection)) this.#idle.add(address);
    address.idle.add(connection);
  }

  #removeIdle(connection: OpenConnection): void {
    const { address } = connection;
    if (address.idle.delete(connection) && address.name !== UNCOUNTED) this.#idle.remove(address);
  }
}
