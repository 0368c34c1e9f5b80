/** A store as it looks after two months of use: customers, keys, counted verifications. Always the same. */
import { createKeyring, createVerifier, type Store, type V2KeysVerifyKeyRequestBody } from "../../src/index.js";
import { allPermissions } from "../../src/cli/database/database.js";
import { dice } from "../model/dice.js";

const DAY = 86_400_000;
const MINUTE = 60_000;

/** A key: whose, what it is made of, and what a day of it looks like. */
interface Shown {
  readonly name: string;
  readonly owner?: string;
  readonly api?: "exports";
  readonly body?: object;
  /** Calls on a day, before the dice, with what they ask for. */
  readonly calls?: number;
  readonly asks?: string;
  /** In how many days from now it expires. */
  readonly expiresIn?: number;
  readonly isDisabled?: boolean;
}

const perMinute = (limit: number) => [{ name: "requests", limit, duration: MINUTE, autoApply: true }];
const READS = ["documents.read", "documents.list"];
const KEYS: readonly Shown[] = [
  {
    ...{ name: "Mobile app", owner: "acme", calls: 90, asks: "documents.read", expiresIn: 12 },
    body: {
      permissions: READS,
      credits: { remaining: 2_000, refill: { interval: "monthly", amount: 2_500, refillDay: 1 } },
      ratelimits: perMinute(60),
      ipAllowlist: ["203.0.113.0/24"],
      meta: { plan: "pro", seats: 5 },
    },
  },
  {
    name: "Nightly export",
    owner: "acme",
    api: "exports",
    calls: 8,
    asks: "exports.run",
    body: { roles: ["exporter"] },
  },
  { name: "Web shop", owner: "globex", calls: 140, asks: "documents.read", body: { permissions: READS } },
  { name: "Warehouse", owner: "globex", calls: 60, asks: "documents.write", body: { roles: ["editor"] } },
  { name: "Old laptop", owner: "globex", isDisabled: true, calls: 3, body: { permissions: READS } },
  { name: "Research", owner: "initech", calls: 40, asks: "documents.list", body: { roles: ["reader"] } },
  {
    ...{ name: "Trial", owner: "umbrella", calls: 12, asks: "documents.read", expiresIn: 3 },
    body: { permissions: READS, credits: { remaining: 300 } },
  },
  { name: "Billing worker", calls: 25, asks: "billing.write", body: { permissions: ["billing.*"] } },
  {
    name: "Status page",
    calls: 30,
    asks: "documents.read",
    body: { permissions: ["documents.read"], ratelimits: perMinute(30) },
  },
];

/** What was made, by name. */
export interface Showcase {
  readonly rootKey: string;
  readonly keys: Readonly<Record<string, string>>;
}

/** Fills an empty store. @param now Unix time, milliseconds: the day that is shown */
export async function fillShowcase(store: Store, now: number): Promise<Showcase> {
  let at = now - 45 * DAY;
  const clock = () => at;
  const keyring = createKeyring(store, { clock, actor: "set-up" });
  const { apiId } = await keyring.createApi({ name: "Documents" });
  const { apiId: exports } = await keyring.createApi({ name: "Exports" });
  await keyring.createRole({ name: "reader", description: "Reads what is public", permissions: READS });
  await keyring.createRole({ name: "editor", description: "Reads and writes", permissions: ["documents.*"] });
  await keyring.createRole({ name: "exporter", permissions: ["exports.run", "exports.read"] });
  const credits = { remaining: 4_000, refill: { interval: "monthly", amount: 5_000, refillDay: 1 } } as const;
  await keyring.createIdentity({ externalId: "acme", ratelimits: perMinute(1_000), credits });
  await keyring.createIdentity({ externalId: "globex", ratelimits: perMinute(600) });
  const keys: Record<string, string> = {};
  const texts = new Map<Shown, string>();
  for (const shown of KEYS) {
    at += 7 * MINUTE;
    const { name, owner, api, body, expiresIn } = shown;
    const { keyId, key } = await keyring.createKey({
      ...{ apiId: api === "exports" ? exports : apiId, prefix: "sk_live", name, ...body },
      ...(owner !== undefined && { externalId: owner }),
      ...(expiresIn !== undefined && { expires: now + expiresIn * DAY }),
    });
    keys[name] = keyId;
    texts.set(shown, key);
  }
  const { key: rootKey } = await keyring.createRootKey({
    ...{ name: "Operator", permissions: [...allPermissions(), "api.*.read_analytics"] },
  });
  await keyring.createRootKey({ name: "Gateway", permissions: ["api.*.verify_key"], expires: now + 90 * DAY });
  await keyring.createMigration({ id: "mig_2019", algorithm: "sha256" });

  const { below, chance, pick } = dice(7);
  for (let day = 40; day >= 0; day--) {
    const verifier = createVerifier(store, { clock, analytics: { interval: MINUTE } });
    for (const shown of KEYS) {
      const calls = Math.round(((shown.calls ?? 0) * (60 + below(80))) / 100);
      at = now - day * DAY - 3_600_000;
      for (let i = 0; i < calls; i++) {
        at += 1_000;
        const isBad = chance(0.03);
        const request: V2KeysVerifyKeyRequestBody = {
          ...{ key: texts.get(shown) ?? "", tags: [`path=/${pick(["documents", "search", "upload"])}`, "region=eu"] },
          ...(shown.asks !== undefined && { permissions: isBad ? "documents.delete AND admin" : shown.asks }),
        };
        await verifier.verify(request, { clientAddress: "203.0.113.7" });
      }
    }
    await verifier.close();
    if (day === 20) await keyring.updateKey({ keyId: keys["Old laptop"] ?? "", enabled: false });
    if (day === 9) await keyring.updateCredits({ keyId: keys["Mobile app"] ?? "", operation: "increment", value: 500 });
    if (day === 2) await keyring.updateKey({ keyId: keys["Web shop"] ?? "", name: "Web shop EU" });
  }
  return { rootKey, keys };
}
