/**
 * Usage as meter events of Stripe: each customer's credits of each full hour. `STRIPE_URL` and `STRIPE_KEY` say where
 * to send them. Customers have Stripe's id of them as `externalId`.
 */
import { createAnalytics, createKeyring, createVerifier, memoryStore } from "keystile";
import { testClock } from "keystile/testing";

const clock = testClock("2026-11-28T09:10:00Z"); // leave it out in yours, as in all the options below
const store = memoryStore();
const keyring = createKeyring(store, { clock: clock.now });
const verifier = createVerifier(store, { clock: clock.now, analytics: true });
const analytics = createAnalytics(store, { clock: clock.now });

const HOUR = 3_600_000;
const SETTLED = 5 * 60_000; // counts of a process that could not reach the store come later
const url = `${process.env["STRIPE_URL"] ?? "https://api.stripe.com"}/v1/billing/meter_events`;
const authorization = `Bearer ${process.env["STRIPE_KEY"]}`;

/** Sends what is due from an hour on. @returns the hour to begin with next time: keep it once this has resolved */
async function report(from: number): Promise<number> {
  const to = Math.floor((clock.now() - SETTLED) / HOUR) * HOUR;
  if (from >= to) return from;
  let cursor: string | undefined;
  do {
    const page = await analytics.query({ by: ["hour", "externalId"], from, to, ...(cursor && { cursor }) });
    for (const { time = 0, externalId = "", spent } of page.rows)
      if (spent > 0 && externalId.startsWith("cus_")) await send(externalId, time, spent);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return to;
}

async function send(customer: string, time: number, value: number): Promise<void> {
  const body = new URLSearchParams({
    event_name: "credits",
    identifier: `${customer}:${time}`, // the same whenever this hour is sent again
    timestamp: String(time / 1_000),
    "payload[stripe_customer_id]": customer,
    "payload[value]": String(value),
  });
  const response = await fetch(url, { method: "POST", headers: { authorization }, body });
  if (response.ok) return;
  const { error } = (await response.json()) as { error?: { code?: string; message?: string } };
  // Stripe refuses an identifier that it has: the hour was counted before.
  if (error?.message?.startsWith("An event already exists with identifier")) return;
  throw new Error(`Stripe: ${response.status} ${error?.message}`);
}

const { apiId } = await keyring.createApi({ name: "documents" });
const { key } = await keyring.createKey({ apiId, externalId: "cus_1", credits: { remaining: 1_000 } });
const began = Math.floor(clock.now() / HOUR) * HOUR;
for (const cost of [30, 5]) await verifier.verify({ key, credits: { cost } });
clock.advance(HOUR);
await verifier.verify({ key, credits: { cost: 7 } });
await verifier.close(); // by itself counts are written every five seconds
console.log(new Date(await report(began)).toISOString());
clock.advance(HOUR);
console.log(new Date(await report(began)).toISOString()); // as after a crash: the first hour goes out again
