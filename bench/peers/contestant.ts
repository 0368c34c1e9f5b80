/** What every program measured here must do, and what each says that it checks. */
import { randomFrom } from "../keys.js";
import { PERMISSIONS } from "../keys.js";

/** What each key gets. */
export interface Terms {
  readonly credits: number;
  /** Calls in any `duration`. */
  readonly limit: number;
  /** Milliseconds. */
  readonly duration: number;
}

/** What a VALID from this program says, column by column of the table; absent: that is not its business. */
export interface Checks {
  readonly permissions?: string;
  readonly limit: string;
  readonly credits?: string;
  /** How soon a key that was taken away is refused. */
  readonly revocation?: string;
}

/** A program with its keys. Key `keys` lacks the permission {@link LACKING}; key `keys + 1` was made up. */
export interface Gate<Answer> {
  /** Presents key `n`. */
  verify(n: number): Answer | Promise<Answer>;
  /** Whether an answer lets the key in. */
  passes(answer: Answer): boolean;
  /** Credits left of key `n`, once no more keys are presented; absent: it counts none. `undefined`: the key is gone. */
  balance?(n: number): number | undefined | Promise<number | undefined>;
  /**
   * The same keys as another process presents them: with its own connections and its own memory. Absent: nothing is
   * shared.
   */
  join?(): Promise<Gate<Answer>>;
  close(): void | Promise<void>;
}

/** A program that can be asked. */
export interface Contestant<Answer = unknown> {
  readonly name: string;
  readonly checks: Checks;
  /** @param keys how many, from number 0 on */
  open(keys: number, terms: Terms): Promise<Gate<Answer>>;
}

/**
 * More than any run spends, and a limit that no run reaches: the longest window that all of them hold is under 24 days.
 */
export const AMPLE: Terms = { credits: 1_000_000_000_000, limit: 1_000_000, duration: 86_400_000 };

/** {@link AMPLE} for programs that count in 32 bits. */
export const AMPLE_32: Terms = { ...AMPLE, credits: 1_000_000_000 };

/** Asked for, and granted to all keys but the last. */
export const LACKING = "reports.export";

/** The permissions of key `n` of `keys`. */
export const grantsOf = (n: number, keys: number): string[] =>
  PERMISSIONS.filter((name) => n !== keys || name !== LACKING);

const LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** Letters that look random: of `n` alone, so that every run has the same keys. */
export function lettersOf(n: number, length: number): string {
  const random = randomFrom(n);
  return Array.from({ length }, () => LETTERS.charAt(random() % LETTERS.length)).join("");
}

/** @throws Error unless the gate lets in whom it must, and nobody else. Takes a credit of key 0 */
export async function assertGuards(name: string, gate: Gate<unknown>, keys: number): Promise<void> {
  const expected: [n: number, passes: boolean][] = [
    [0, true],
    [keys, false],
    [keys + 1, false],
  ];
  for (const [n, passes] of expected) {
    if (gate.passes(await gate.verify(n)) !== passes)
      throw new Error(`${name}: key ${n} of ${keys} ${passes ? "is refused" : "passes"}`);
  }
}
