/** What all validation of requests says alike. */

/** Most problems in one response: each costs time, and whoever sends more mistakes than that reads no further. */
export const MAX_PROBLEMS = 100;

/**
 * Other property names are not repeated in an error's location, because they might be a secret. A new key has 28
 * characters; an imported one may be shorter but almost always has a digit, and none of our property names does.
 */
export const PLAIN_NAME = /^[A-Za-z_$]{1,24}$/;

/** The problem of a property that an object may not have, at the property. */
export const UNKNOWN_PROPERTY = { message: "is not a property of this object", fix: "remove it" } as const;

/** The same where the name is not repeated, at the object. */
export const HIDDEN_PROPERTY = {
  message: "has a property that is not allowed",
  fix: "send only the properties of the interface",
} as const;

/** The problem of a value whose getter throws, or a trap of the Proxy that it is; their errors may hold anything. */
export const UNREADABLE = { message: "cannot be read", fix: "send a plain object" } as const;
