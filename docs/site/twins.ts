/** What each operation over HTTP is called in the library and on the command line. */

/** Where the library has another name than `keyring.<verb>`; undefined: it has no callers to ask about. */
const ELSEWHERE: Readonly<Record<string, string | undefined>> = {
  "keys.verifyKey": "verifier.verify",
  "keys.explainKey": "explain",
  "identities.updateCredits": "keyring.updateIdentityCredits",
  "analytics.getVerifications": "analytics.query",
  "analytics.getRefusals": "analytics.refusals",
  "analytics.getStatement": "analytics.statement",
  "callers.whoami": undefined,
};

/** @returns `keyring.createKey` for `keys.createKey`; undefined: the library has no such call */
export function libraryOf(operation: string): string | undefined {
  if (operation in ELSEWHERE) return ELSEWHERE[operation];
  const [group, verb = ""] = operation.split(".");
  return `${group === "ratelimit" ? "ratelimits" : "keyring"}.${verb}`;
}

/** @returns `api keys create-key` for `keys.createKey` */
export function commandOf(operation: string): string {
  return `api ${operation.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replace(".", " ")}`;
}
