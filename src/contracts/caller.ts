/** What an authenticated caller may do. Types only. Contract 4.1-3, 4.1-4, 5.4. */

/** The resource that an action applies to. */
export interface Resource {
  /** `workspace`: what belongs to none of the others, such as root keys and the audit trail. */
  readonly type: "api" | "ratelimit" | "rbac" | "identity" | "workspace";
  /**
   * Id of the API (its keyspace has the same id) or of the namespace. Absent: only a grant for all resources of the
   * type covers it.
   */
  readonly id?: string;
  /** One key of that API. */
  readonly keyId?: string;
}

/** An authenticated caller. */
export interface Caller {
  /** The caller sees only this workspace. */
  readonly workspaceId: string;
  /** What authenticated it, such as `rootKey`; tells apart callers of different kinds that have the same `id`. */
  readonly kind?: string | undefined;
  /**
   * Which caller of its workspace it is, 1–1_024 characters: each has idempotency keys of its own. Absent: it can use
   * none.
   */
  readonly id?: string | undefined;
  /** Whether a grant covers `action` on this resource, such as `verify_key` on `{ type: "api", id, keyId }`. */
  may(action: string, resource: Resource): boolean;
  /** Whether a grant covers `action` on any resource of this type at all. */
  mayAny(action: string, type: Resource["type"]): boolean;
}
