/** What the simulator throws when a run breaks an invariant. */

/** The clauses of the judge, each with a planted fault that breaks it (`faults.ts`). */
export type Clause =
  | "credited"
  | "refilled"
  | "adjusted"
  | "spent"
  | "refused"
  | "reserved"
  | "returned"
  | "settled"
  | "shared"
  | "totals"
  | "counted"
  | "balance"
  | "unlimited"
  | "acknowledged"
  | "unacknowledged"
  | "answer"
  | "limits"
  | "once"
  | "error"
  | "rest";

export class Violation extends Error {
  constructor(
    readonly clause: Clause,
    message: string,
  ) {
    super(`${clause}: ${message}`);
    this.name = "Violation";
  }
}

/** @throws Violation unless `holds` */
export function must(holds: boolean, clause: Clause, message: () => string): asserts holds {
  if (!holds) throw new Violation(clause, message());
}
