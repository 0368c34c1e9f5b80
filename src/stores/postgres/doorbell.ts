/**
 * Tells other nodes by NOTIFY that something changed, so that they poll at once. Listens for theirs if the client can.
 */
import { startTimer } from "../../lib/timers.js";
import type { EndListening, Session, Statement } from "./client.js";

/** Pauses before listening is tried again, milliseconds; the last one repeats. */
const LISTEN_AGAIN_MS = [1_000, 5_000, 30_000] as const;
/** How long a listener waits for its own notification. */
const PROBE_MS = 2_000;
const SELF = "probe ";
/** Commits without waiting for disk or standby: a lost notification only means that others poll later. */
const NOTIFY: Statement = {
  isRead: true,
  lane: "write",
  text: "SELECT pg_catalog.set_config('synchronous_commit', 'off', true), pg_catalog.pg_notify($1::text, $2::text)::text",
};

export class Doorbell {
  readonly #session: Session;
  readonly #channel: string;
  readonly #onRing: () => void;
  #isListening = false;
  #isClosed = false;
  #isRinging = false;
  /** Whether to ring once more after the ring in flight. */
  #ringsAgain = false;
  /** The latest attempt to listen, and a function that ends its wait to hear itself. */
  #attempt: Promise<void> | undefined;
  #endProbe: (() => void) | undefined;
  /** Ends the current listening. */
  #end: EndListening | undefined;

  /**
   * @param schema nodes of the same schema hear each other
   * @param onRing called when another node rings, and once listening has begun, since earlier rings were missed
   */
  constructor(session: Session, schema: string, onRing: () => void) {
    this.#session = session;
    this.#channel = `keystile_${schema}`;
    this.#onRing = onRing;
  }

  /** Whether rings of other nodes are heard. */
  get isListening(): boolean {
    return this.#isListening;
  }

  /** Begins to listen, if the client can, and again whenever its connection ends. */
  listen(): void {
    this.#attempt = this.#listen(0);
  }

  /** Notifies the other nodes. At most one ring is in flight; further calls meanwhile become one ring after it. */
  ring(): void {
    this.#ringsAgain = this.#isRinging;
    if (this.#isRinging || this.#isClosed) return;
    this.#isRinging = true;
    const done = (): void => {
      this.#isRinging = false;
      if (this.#ringsAgain) this.ring();
    };
    this.#session.run(NOTIFY, this.#channel, "").then(done, done);
  }

  /** Resolves once listening has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endProbe?.();
    await this.#attempt;
    await this.#end?.();
  }

  /** One attempt. Checks that it hears its own notification: a pooler may silently ignore LISTEN. */
  async #listen(tries: number): Promise<void> {
    if (this.#isClosed) return;
    let isOver = false;
    const again = (): void => {
      if (isOver) return;
      isOver = true;
      const next = this.#isListening ? 0 : tries;
      this.#isListening = false;
      this.#end = undefined;
      const pause = LISTEN_AGAIN_MS[Math.min(next, LISTEN_AGAIN_MS.length - 1)] as number;
      startTimer(() => void (this.#attempt = this.#listen(next + 1)), pause);
    };
    const nonce = SELF + Math.random().toString(36).slice(2);
    let hearItself: (isHeard: boolean) => void = () => undefined;
    const hears = new Promise<boolean>((resolve) => (hearItself = resolve));
    this.#endProbe = () => hearItself(false);
    let end: EndListening | undefined;
    try {
      end = await this.#session.listen(
        this.#channel,
        (payload) => (payload === nonce ? hearItself(true) : payload.startsWith(SELF) || this.#onRing()),
        again,
      );
      if (end === undefined || isOver) return;
      this.#end = end;
      // `close` waits for this attempt, and then ends the listening.
      if (this.#isClosed) return;
      await this.#session.run(NOTIFY, this.#channel, nonce);
      startTimer(() => hearItself(false), PROBE_MS);
      const isHeard = await hears;
      if (isOver || this.#isClosed) return;
      this.#isListening = isHeard;
      if (isHeard) {
        this.#onRing();
        return;
      }
      // No further attempt: something between here and the server does not pass notifications on.
      isOver = true;
      this.#end = undefined;
      await end();
    } catch {
      again();
      await end?.();
    }
  }
}
