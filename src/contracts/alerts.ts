/** Alerts: what they say, and how stores keep them (store clause 30). Types only. */

/** What every alert says. */
export interface AlertHead {
  /** The same at each try to deliver it: whoever gets one twice tells by it. */
  readonly id: string;
  /** When the bound was found passed, Unix time in milliseconds. */
  readonly time: number;
  readonly workspaceId: string;
  /** The name of the rule. Absent: it is not one of `rules`. */
  readonly rule?: string;
}
/** A balance is below `creditsBelow`: a key's own, or one that the keys of an identity share. */
export interface CreditsAlert extends AlertHead {
  readonly type: "credits.low";
  /** Of a key's own balance; of keys that replaced each other the latest. */
  readonly keyId?: string;
  /** Of a balance that keys share. */
  readonly identityId?: string;
  /** Of the identity, if the key has one. */
  readonly externalId?: string;
  /** Credits left at that time, those that are leased or reserved among them: nothing has spent them yet. */
  readonly remaining: number;
}
/** A key expires within `expiresWithin`. */
export interface ExpiryAlert extends AlertHead {
  readonly type: "key.expiring";
  readonly keyId: string;
  readonly apiId: string;
  /** Of its identity. Absent: it has none. */
  readonly externalId?: string;
  /** Unix time, milliseconds. */
  readonly expires: number;
}
/** A customer expires within `expiresWithin`, and all its keys with it. */
export interface OwnerExpiryAlert extends AlertHead {
  readonly type: "identity.expiring";
  readonly identityId: string;
  readonly externalId: string;
  /** Unix time, milliseconds. */
  readonly expires: number;
}
/** Of the verifications of an API in this hour and the one before, `refusedShare` or more were not VALID. */
export interface RefusalsAlert extends AlertHead {
  readonly type: "verifications.refused";
  readonly apiId: string;
  readonly refused: number;
  /** All verifications, those that were refused included. */
  readonly total: number;
}
/** One crossing of a bound. Contains ids and numbers; no key, hash or token. */
export type Alert = CreditsAlert | ExpiryAlert | OwnerExpiryAlert | RefusalsAlert;

/** A change of what is raised (store clause 30). */
export interface AlertChange {
  readonly workspaceId: string;
  /** What is watched, {@link Alert} `type`. */
  readonly kind: Alert["type"];
  /** Whose: an id of a key, an account, an identity or an API. */
  readonly subject: string;
  /** Before it was looked at, Unix time in milliseconds, */
  readonly from: number;
  /** and afterwards: what was found was so at some time in between. */
  readonly until: number;
  /** JSON of the {@link Alert} that is raised. Absent: the one that is raised ends. */
  readonly body?: string;
}
/** `raised`: has not ended. `pending`: neither delivered nor given up. `dead`: given up after the last try. */
export type AlertState = "raised" | "pending" | "dead";
/** Selects alerts of a workspace, by number. */
export interface AlertQuery {
  readonly workspaceId: string;
  readonly state: AlertState;
  /** Only higher numbers. */
  readonly after?: number;
  /** At most so many, ≥ 1. */
  readonly limit: number;
}
/** Takes alerts that are due. */
export interface AlertTake {
  readonly workspaceId: string;
  /** Unix time in milliseconds: those due by then. */
  readonly now: number;
  /** When they are due again unless they are settled. */
  readonly until: number;
  /** At most so many, ≥ 1. */
  readonly limit: number;
  /** Of what is neither raised nor pending, remove some that ended before this. */
  readonly endedBefore: number;
}
/** What became of a try to deliver. */
export interface AlertSettlement {
  readonly number: number;
  /** {@link AlertRow.due}, as it was taken. */
  readonly due: number;
  /** When it is tried again, Unix time in milliseconds; `delivered` or `dead`: never. */
  readonly next: number | "delivered" | "dead";
}
/** An alert as it is kept. */
export interface AlertRow {
  /** Higher than those of earlier ones. */
  readonly number: number;
  readonly kind: string;
  readonly subject: string;
  /** As it was raised. */
  readonly body: string;
  /** How many tries to deliver it have ended: one of a process that vanished does not count. */
  readonly tries: number;
  /** When it is tried next, Unix time in milliseconds. Absent: it is delivered or dead. */
  readonly due?: number;
}
