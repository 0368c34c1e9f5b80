/** Who asks: what a credential may do. Types only. Spec §4.1-3, §4.1-4, §5.4, rulings B6, B7, F1. Knows no header and no token. */

/** What an action is done to. */
export interface Resource {
  readonly type: "api" | "ratelimit" | "rbac" | "identity";
  /** Id of the API (its keyspace has the same), or of the namespace. Absent: only a grant for all of them covers it. */
  readonly id?: string;
  /** One key of that API. */
  readonly keyId?: string;
}

/** A credential that was accepted. */
export interface Caller {
  /** Nothing of another workspace is seen. */
  readonly workspaceId: string;
  /** Whether a grant covers `action` on this resource, such as `verify_key` on `{ type: "api", id, keyId }`. */
  may(action: string, resource: Resource): boolean;
  /** Whether a grant covers `action` on any resource of this type at all. */
  mayAny(action: string, type: Resource["type"]): boolean;
}
