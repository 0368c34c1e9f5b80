/**
 * Tokens of a language model for sale: a month, packs that expire, and overage that is invoiced. Answers are streams,
 * which pay for the tokens that they had. `docs/sell-a-plan.md` explains it. The first argument is what to do: `serve`,
 * or in place of your webhooks and cron job `addCustomer cus_1`, `addPack cus_1 order_1` and `invoice 2026-11`.
 */
import { appendFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";
import express from "express";
import { createAlerts, createAnalytics, createKeyring, createVerifier } from "keystile";
import { apiKey, verifiedKey } from "keystile/express";
import { createPortalListener } from "keystile/portal";
import { sqliteStore } from "keystile/sqlite";

const { DATABASE = "tokens.db", MAILS = "mails.txt", CUSTOMER, PORT = "0" } = process.env;
const { STRIPE_URL = "https://api.stripe.com", STRIPE_KEY } = process.env;
const store = sqliteStore(DATABASE);
const keyring = createKeyring(store);
const analytics = createAnalytics(store);
const monthly = (amount: number) => ({ interval: "monthly", amount, refillDay: 1, rollover: 0 }) as const;

/** 10,000 tokens a month, and up to 50,000 more on the invoice. The name of a customer is Stripe's. */
async function addCustomer(externalId = "") {
  await keyring.createIdentity({ externalId, credits: { remaining: 10_000, refill: monthly(10_000) } });
  const overage = { grantId: "overage", amount: 50_000, refill: monthly(50_000), priority: 255 };
  await keyring.grantCredits({ identity: externalId, ...overage });
}

/** An order that comes twice is one pack. */
const addPack = (identity = "", order = "") =>
  keyring.grantCredits({ identity, grantId: order, amount: 5_000, expiresIn: 90 * 86_400_000 });

/** An item on the next invoice of each customer. Stripe knows the key for 24 hours: within them twice is once. */
async function invoice(month = "") {
  for (let more = true, cursor: string | undefined; more; more = cursor !== undefined) {
    const page = await keyring.listIdentities(cursor === undefined ? {} : { cursor });
    for (const { externalId: customer } of page.data) {
      const { accounts } = await analytics.statement({ externalId: customer }, month);
      const spent = accounts.find(({ grantId }) => grantId === "overage")?.spent ?? 0;
      if (spent === 0) continue;
      const headers = { authorization: `Bearer ${STRIPE_KEY}`, "idempotency-key": `${customer} ${month}` };
      const amount = String(Math.ceil(spent / 50)); // two cents for a hundred tokens
      const item = { customer, amount, currency: "usd", description: `${spent} tokens, ${month}` };
      const sent = { method: "POST", headers, body: new URLSearchParams(item) };
      const response = await fetch(`${STRIPE_URL}/v1/invoiceitems`, sent);
      if (!response.ok) throw new Error(`Stripe: ${response.status} ${await response.text()}`);
    }
    cursor = page.pagination.cursor;
  }
}

/** Stands for a model: a token every 5 ms, until its caller wants no more. */
async function* complete(tokens: number, signal: AbortSignal) {
  for (let i = 0; i < tokens && !signal.aborted; i++) yield setTimeout(5, "token ");
}

/** The most that a request may cost, whatever its body says: what a guard's function throws is a 500. */
function asked({ body }: express.Request): number {
  const tokens = Number((body as { tokens?: unknown } | undefined)?.tokens);
  return Number.isInteger(tokens) && tokens > 0 ? Math.min(tokens, 4_000) : 4_000;
}

async function serve() {
  const { apiId } = await keyring.getOrCreateApi({ apiId: "api_complete", name: "complete" });
  const verifier = createVerifier(store, { analytics: true });
  const mail = (to = "", left = 0) => appendFile(MAILS, `To: ${to}\nOf your tokens ${left} are left.\n\n`);
  createAlerts(store, {
    ...{ creditsBelow: { share: 0.1 }, interval: 5_000 },
    // Of a customer, not of a key's own credits.
    deliver: (alert) => alert.type === "credits.low" && !alert.keyId && mail(alert.externalId, alert.remaining),
  });
  const app = express();
  // The portal reads bodies itself, so it comes before the parser; the guard reserves by the body, and comes after it.
  const ceiling = { keys: 5, identity: true } as const;
  const owner = () => CUSTOMER; // stands for your session: server.ts has one
  app.use("/account", createPortalListener(keyring, { owner, apiId, ceiling, analytics, basePath: "/account" }));
  app.use(express.json());
  app.post("/complete", apiKey(verifier, { apiId, reserve: asked }), async (req, res) => {
    const gone = new AbortController();
    res.once("close", () => gone.abort());
    let used = 0;
    try {
      for await (const token of complete(asked(req), gone.signal)) {
        used++;
        res.write(token);
      }
    } finally {
      await verifiedKey(req).commit(used); // also where the model fails, or the client has gone away
    }
    res.end();
  });
  const server = app.listen(Number(PORT), "127.0.0.1", () =>
    console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
  );
}

const [command = "serve", ...given] = process.argv.slice(2);
const commands: Record<string, (...given: string[]) => unknown> = { serve, addCustomer, addPack, invoice };
await commands[command]?.(...given);
