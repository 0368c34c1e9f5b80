/** Keys to try the examples with. A program of yours makes them once, in a file: `sqliteStore("keys.db")`. */
import { createKeyring, createVerifier, memoryStore } from "keystile";

const store = memoryStore();
export const verifier = createVerifier(store);

const keyring = createKeyring(store);
export const { apiId } = await keyring.createApi({ name: "documents" });
const ratelimits = [{ name: "requests", limit: 3, duration: 60_000, autoApply: true }];
const reader = await keyring.createKey({ apiId, permissions: ["documents.*"], ratelimits });
const stranger = await keyring.createKey({ apiId });

/** Tells how to call the guarded route. */
export function tell(url: string, { command = "curl -i", rest = "" } = {}): void {
  console.log(`may read: ${command} -H "Authorization: Bearer ${reader.key}" ${rest}${url}`);
  console.log(`may not:  ${command} -H "Authorization: Bearer ${stranger.key}" ${rest}${url}`);
}
