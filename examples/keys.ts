/**
 * Keys to try the examples with, in memory, or in the file that `KEYS_DB` names. A program of yours makes them once, in
 * a file: `sqliteStore("keys.db")`.
 */
import { createKeyring, createVerifier, memoryStore } from "keystile";
import { sqliteStore } from "keystile/sqlite";

const file = process.env["KEYS_DB"];
const store = file === undefined ? memoryStore() : sqliteStore(file);
export const verifier = createVerifier(store);

export const keyring = createKeyring(store);
export const { apiId } = await keyring.createApi({ name: "documents" });
const ratelimits = [{ name: "requests", limit: 3, duration: 60_000, autoApply: true }];
const credits = { remaining: 100 };
const reader = await keyring.createKey({ apiId, permissions: ["documents.*"], ratelimits, credits });
const stranger = await keyring.createKey({ apiId, ratelimits });

/** Tells how to call the guarded route. */
export function tell(url: string, { command = "curl -i", rest = "" } = {}): void {
  console.log(`may read: ${command} -H "Authorization: Bearer ${reader.key}" ${rest}${url}`);
  console.log(`may not:  ${command} -H "Authorization: Bearer ${stranger.key}" ${rest}${url}`);
}
