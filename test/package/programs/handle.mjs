// Keys in a database of the runtime's own, which needs no driver: node:sqlite, and in Bun bun:sqlite.
import { createKeyring, createVerifier } from "keystile";
import { sqliteStore } from "keystile/sqlite";

const open = async (file) => {
  if (globalThis.Bun !== undefined) return new (await import("bun:sqlite")).Database(file);
  return new (await import("node:sqlite")).DatabaseSync(file);
};
const handle = await open(process.argv[2]);
const store = sqliteStore(handle);
const keyring = createKeyring(store);
const { apiId } = await keyring.createApi({ name: "documents" });
const { key } = await keyring.createKey({
  apiId,
  permissions: ["documents.*"],
  credits: { remaining: 100 },
  ratelimits: [{ name: "requests", limit: 50, duration: 60_000, autoApply: true }],
});
const verifier = createVerifier(store);
const answers = await Promise.all(
  Array.from({ length: 200 }, () => verifier.verify({ key, permissions: "documents.read" })),
);
const codes = {};
for (const { code } of answers) codes[code] = (codes[code] ?? 0) + 1;
await verifier.close();
await store.close();
const again = sqliteStore(handle);
const { credits } = await createVerifier(again).verify({ key, credits: { cost: 0 } });
await again.close();
handle.close();
console.log(JSON.stringify({ codes, credits }));
