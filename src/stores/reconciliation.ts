/** What a store's books were found to be, however the store keeps them. */

/** Something that does not add up. */
export interface BrokenAccount {
  /** A key or an identity, or what else is named where none has it. */
  readonly keyId: string;
  /** What is wrong, in words. */
  readonly problem: string;
}

/** Most that are named. */
export const MAX_NAMED = 100;

export function createFindings() {
  /** The first {@link MAX_NAMED} broken accounts. */
  const named: BrokenAccount[] = [];
  const result = { accounts: 0, broken: 0, named };
  return {
    result,
    /** Counts accounts that were read. */
    read: (accounts: number): void => void (result.accounts += accounts),
    name(keyId: string, problem: string): void {
      result.broken++;
      if (named.length < MAX_NAMED) named.push({ keyId, problem });
    },
  };
}

/** Collects what is found. */
export type Findings = ReturnType<typeof createFindings>;

/** What was checked, and what is wrong with it. */
export type Reconciliation = Readonly<Findings["result"]>;
