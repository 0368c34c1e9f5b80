import { createVerifier, type Verifier } from "keystile";
import { sqliteStore } from "keystile/sqlite";

// `next dev` loads modules anew after each change, and the proxy and each route apart: what is made once is kept here.
const kept = globalThis as typeof globalThis & { keystile?: Verifier };

export const verifier = (kept.keystile ??= createVerifier(sqliteStore(process.env.KEYS_DB ?? "keys.db")));
export const apiId = "api_documents";
