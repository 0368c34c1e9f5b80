/** A customer whose page is worth a picture. */
import { createVerifier, forOwner } from "../../src/index.js";
import { CEILING, NOW, type Shop } from "./support.js";

const DAY = 86_400_000;

/** Fills the page of `globex`: a plan and a grant, and keys of several states that were used. */
export async function fillShop({ store, keyring, apiId }: Shop): Promise<void> {
  const refill = { interval: "monthly", amount: 10_000, refillDay: 1, rollover: 0 } as const;
  await keyring.createIdentity({ externalId: "globex", credits: { remaining: 10_000, refill } });
  const grant = { identity: "globex", grantId: "welcome", amount: 500, expires: NOW + 21 * DAY };
  await keyring.grantCredits(grant);
  const mine = forOwner(keyring, "globex", { apiId, prefix: "rep", ceiling: { ...CEILING, keys: 10 } });
  const texts: string[] = [];
  const make = async (name: string, permissions: readonly string[]): Promise<string> => {
    const { key, keyId } = await mine.create({ name, permissions });
    texts.push(key);
    return keyId;
  };
  await make("Nightly export", ["reports.read"]);
  await make("Build server", ["reports.read", "reports.write"]);
  const old = await make("Laptop", ["reports.read"]);
  let now = NOW;
  const verifier = createVerifier(store, { clock: () => now, analytics: true });
  for (let day = 29; day >= 0; day--) {
    now = NOW - day * DAY;
    for (const [i, key] of texts.entries())
      await verifier.verify({ key, credits: { cost: 20 + ((day * 7 + i * 5) % 13) * 4 } });
    if (day % 6 === 0) await verifier.verify({ key: texts[0] ?? "", permissions: "reports.write" });
  }
  await verifier.close();
  await mine.rotate({ keyId: old });
}
