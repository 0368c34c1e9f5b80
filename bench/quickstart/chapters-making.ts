/** The chapters that make keys: an API with roles, the import of both files, a few new ones. */
import { generateAPIKey } from "prefixed-api-key";
import { pathOf } from "./files.js";
import { type Imported, importFile, isAsExpected } from "./importing.js";
import { TOTAL } from "./seed.js";
import { check, type Stage } from "./stage.js";
import { type Job, migrationOf } from "./workload.js";

const ROLES = [
  { name: "viewer", permissions: ["documents.read", "documents.list"] },
  { name: "editor", permissions: ["documents.*"] },
];

/** First run only. @returns the id of the API that all keys belong to */
export async function prepare({ screen, keyring, seeds }: Stage): Promise<string> {
  screen.step("An API, two roles, and the two former providers that keys come from");
  const { apiId } = await keyring.createApi({ name: "Documents" });
  for (const role of ROLES) await keyring.createRole(role);
  // A limit of the customer's own, shared by all keys of that customer.
  const ratelimits = [{ name: "customer", limit: 100_000, duration: 86_400_000, autoApply: true }];
  await keyring.createIdentity({ externalId: "analytical_engines", meta: { country: "GB" }, ratelimits });
  for (const { migrationId, algorithm } of seeds) await keyring.createMigration({ id: migrationId, algorithm });
  screen.table(
    ["role", "grants"],
    ROLES.map(({ name, permissions }) => [name, permissions.join(", ")]),
  );
  return apiId;
}

/** Both files, line by line; the second run finds every key there already. */
export async function importAll(stage: Stage, apiId: string, isFirstRun: boolean): Promise<readonly Imported[]> {
  const { screen, keyring, seeds } = stage;
  screen.step(`Import: ${TOTAL.toLocaleString("en-US")} keys that others made; their hashes, never the keys`);
  const results: Imported[] = [];
  for (const seed of seeds) results.push(await importFile(keyring, apiId, seed, screen));
  screen.table(
    ["file", "lines", "imported", "refused", "a second"],
    results.map((result, i) => {
      const seed = seeds[i];
      return [
        seed ? pathOf(seed) : "",
        result.lines,
        result.migrated,
        result.failed,
        Math.round((result.lines / result.milliseconds) * 1_000),
      ];
    }),
  );
  const refused = new Map<string, number>();
  for (const { reasons } of results)
    for (const [reason, n] of Object.entries(reasons)) refused.set(reason, (refused.get(reason) ?? 0) + n);
  screen.line(`refused: ${[...refused].map(([reason, n]) => `${n.toLocaleString("en-US")} ${reason}`).join(" · ")}`);
  const ok = seeds.every((seed, i) => results[i] !== undefined && isAsExpected(results[i], seed, isFirstRun));
  check(
    stage,
    ok,
    isFirstRun
      ? "all went in but the faults planted in the files"
      : "every key is reported as there already, none went in twice",
  );
  return results;
}

const INSIDE = "203.0.113.7";
const OUTSIDE = "198.51.100.1";

/** New keys of one's own, and one more from the former provider. @returns what their owners ask */
export async function createKeys(stage: Stage, apiId: string): Promise<readonly Job[]> {
  const { screen, keyring } = stage;
  screen.step("New keys");
  const writer = await keyring.createKey({
    apiId,
    prefix: "docs",
    name: "Writer",
    externalId: "analytical_engines",
    permissions: ["documents.*"],
    credits: { remaining: 100, refill: { interval: "monthly", amount: 100, refillDay: 31 } },
  });
  const office = await keyring.createKey({
    apiId,
    prefix: "docs",
    name: "Office only",
    ipAllowlist: ["203.0.113.0/24", "2001:db8::/32"],
  });
  const rows = [];
  for (const [{ keyId }, note] of [
    [writer, "documents.*, 100 credits, 100 more each month's last day"],
    [office, "only from 203.0.113.0/24 and 2001:db8::/32"],
  ] as const) {
    rows.push([`${(await keyring.getKey({ keyId })).start}…`, note]);
  }
  screen.table(["starts with", ""], rows);
  await adoptOne(stage, apiId);
  return [
    { request: { key: writer.key, permissions: "documents.read AND documents.write" }, expects: ["VALID"] },
    { request: { key: office.key }, context: { clientAddress: INSIDE }, expects: ["VALID"] },
    {
      request: { key: office.key },
      context: { clientAddress: OUTSIDE },
      expects: Array.from({ length: 60 }, () => "FORBIDDEN" as const),
    },
    { request: { key: office.key }, expects: ["FORBIDDEN"] },
  ];
}

/** The package makes a key this moment; its owner never notices the move. */
async function adoptOne(stage: Stage, apiId: string): Promise<void> {
  const { keyring, verifier, seeds } = stage;
  const { token, longTokenHash } = await generateAPIKey({ keyPrefix: "acme" });
  const [seed] = seeds;
  if (token === undefined || seed === undefined) throw new Error("the package made no key");
  await keyring.migrateKeys({
    migrationId: seed.migrationId,
    apiId,
    keys: [{ hash: longTokenHash, name: "made a moment ago" }],
  });
  const codes = [];
  for (const request of [{ key: token }, { key: token, ...migrationOf(seed) }, { key: token }])
    codes.push((await verifier.verify(request)).code);
  const ok = codes.join() === "NOT_FOUND,VALID,VALID";
  check(stage, ok, "a key made now by prefixed-api-key verifies with its migrationId, and from then on without it");
}
