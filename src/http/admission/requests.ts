/**
 * The requests under way, with a bound on their number. When one more arrives, the oldest request of the account with
 * the most requests is ended.
 *
 * Why the oldest of the largest account: a request that is answered within milliseconds never becomes the oldest of a
 * flood, but one whose client sends no body or reads no answer does. Below the bound no request is ended.
 */

/** A request under way. */
export interface Ongoing {
  /** Whether its answer was handed to the socket, and waits for the client to read it. */
  readonly isAnswered: boolean;
  /** Ends its connection, and everything that the request holds. */
  end(): void;
}

export class Requests {
  readonly #max: number;
  #size = 0;
  /** By account, oldest first. */
  readonly #ongoing = new Map<string, Set<Ongoing>>();

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  add(account: string, request: Ongoing): void {
    const own = this.#ongoing.get(account) ?? new Set();
    this.#ongoing.set(account, own.add(request));
    if (++this.#size > this.#max) this.endOldest();
  }

  remove(account: string, request: Ongoing): void {
    const own = this.#ongoing.get(account);
    if (own?.delete(request) !== true) return;
    this.#size--;
    if (own.size === 0) this.#ongoing.delete(account);
  }

  /** Ends the oldest request of the account with the most. */
  endOldest(): void {
    let most: ReadonlySet<Ongoing> = new Set();
    for (const own of this.#ongoing.values()) if (own.size > most.size) most = own;
    const [oldest] = most;
    oldest?.end();
  }

  /** Ends requests of an account with unread answers, oldest first, as long as `isOver` returns true. */
  endUnread(account: string, isOver: () => boolean): void {
    for (const request of this.#ongoing.get(account) ?? []) {
      if (!isOver()) return;
      if (request.isAnswered) request.end();
    }
  }
}
