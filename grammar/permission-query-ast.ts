/** What the permission-query parser returns. Types only: the generated declarations refer to them. Contract 2.1. */

/** A parsed query: one name, or two queries joined. As deep as the text nests or chains. */
export type QueryNode = PermissionNode | OperatorNode;

/** One permission asked for, as written; `*` in it is a plain character. */
export interface PermissionNode {
  readonly kind: "permission";
  /** A run of `A-Z a-z 0-9 . _ - * : /`, never exactly AND or OR. */
  readonly name: string;
}

/** Both sides, or either side. Chains lean to the left. */
export interface OperatorNode {
  readonly kind: "and" | "or";
  readonly left: QueryNode;
  readonly right: QueryNode;
}
