/** Tells other nodes by NOTIFY that something changed, so that they poll at once, and listens for theirs if it can. */
import { startTimer } from "../../lib/start-timer.js";
import type { EndListening, Session, Statement } from "./client.js";

/** Pauses before listening is tried again, milliseconds. */
const LISTEN_AGAIN_MS = [1_000, 5_000, 30_000] as const;
/** How long a listener has to hear its own ring. */
const PROBE_MS = 2_000;
const SELF = "probe ";
/** It commits, and must not wait for the disk or for a standby: to be lost costs time and nothing else. */
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
  /** Whether to ring once more after the ring that is on its way. */
  #ringsAgain = false;
  /** The latest attempt to listen, and what ends its wait to hear itself. */
  #attempt: Promise<void> | undefined;
  #endProbe: (() => void) | undefined;
  /** Ends the listening that goes on. */
  #end: EndListening | undefined;

  /**
   * @param schema whose nodes hear each other
   * @param onRing called when another node rings, and once listening has begun: what was rung before was missed
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

  /** Rings at the other nodes. At most one ring is on its way: those asked for meanwhile are one after it. */
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

  /** Resolves once nothing is listened to. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endProbe?.();
    await this.#attempt;
    await this.#end?.();
  }

  /** One attempt. It makes sure that it hears: a pooler may swallow LISTEN without a word. */
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
      // `close` waits for this attempt, and ends it then.
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
      // Not again: what is between here and the server does not pass notifications on.
      isOver = true;
      this.#end = undefined;
      await end();
    } catch {
      again();
      await end?.();
    }
  }
}
