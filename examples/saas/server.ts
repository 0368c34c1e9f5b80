/**
 * A plan for sale: each customer has 1,000 calls a month and 100 a minute, whatever keys they hold, a page to look
 * after them, and 10,000 once they have paid for it. `docs/sell-a-plan.md` explains it. Arguments: the database, and
 * the file that stands in for a mail server. `WEBHOOK_SECRET` signs what the payment provider sends.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { appendFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import express from "express";
import { createAlerts, createAnalytics, createKeyring, createVerifier, isKeystileError } from "keystile";
import { apiKey, verifiedKey } from "keystile/express";
import { createPortalListener } from "keystile/portal";
import { sqliteStore } from "keystile/sqlite";

const [database = "saas.db", mails = "mails.txt"] = process.argv.slice(2);
const store = sqliteStore(database);
const keyring = createKeyring(store);
const verifier = createVerifier(store, { analytics: true });
createAlerts(store, {
  creditsBelow: { share: 0.1 },
  interval: 5_000,
  deliver: (alert) =>
    alert.type === "credits.low" &&
    !alert.keyId && // of the customer, not of a key's own credits
    appendFile(mails, `To: ${alert.externalId}\nOf your credits ${alert.remaining} are left.\n\n`),
});
const { apiId } = await keyring.getOrCreateApi({ apiId: "api_reports", name: "reports" });

// The plans. Keys draw on them together, so new keys bring no new credits. What is left at the end of a month expires.
const monthly = (amount: number) => ({ interval: "monthly", amount, refillDay: 1, rollover: 0 }) as const;
const plans = { free: monthly(1_000), pro: monthly(10_000) };
const credits = { remaining: 1_000, refill: plans.free };
const ratelimits = [{ name: "calls", limit: 100, duration: 60_000, autoApply: true }];

const app = express();

// What customers pay for.
app.get("/reports", apiKey(verifier, { apiId, permissions: "reports.read", cost: 1 }), (req, res) => {
  res.json({ report: "…", left: verifiedKey(req).credits });
});

// What they paid. A provider may deliver an event twice, or late: for the id of each event the plan changes once.
const secret = process.env["WEBHOOK_SECRET"] ?? randomBytes(32).toString("hex");
app.post("/webhooks/payment", express.raw({ type: "application/json" }), async (req, res) => {
  const body = Buffer.isBuffer(req.body) ? req.body : Buffer.alloc(0);
  const expected = createHmac("sha256", secret).update(body).digest();
  const sent = Buffer.from(req.get("x-signature") ?? "", "hex");
  if (sent.length !== expected.length || !timingSafeEqual(sent, expected)) return void res.sendStatus(401);
  const event = JSON.parse(body.toString()) as { id: string; customer: string; plan: keyof typeof plans };
  await keyring.changePlan(
    { identity: event.customer, refill: plans[event.plan], now: "difference", reason: event.plan },
    { idempotencyKey: event.id },
  );
  res.sendStatus(204);
});

// Their page, behind a session: the customer comes from there and never from the request. A real program asks for a
// password, or sends a link; whoever comes back finds their plan as it is.
const sessions = new Map<string, string>();
const owner = (request: Request) => sessions.get(/session=(\w+)/.exec(request.headers.get("cookie") ?? "")?.[1] ?? "");
const ceiling = { identity: true, keys: 5, permissions: ["reports.read"] } as const;
const page = { analytics: createAnalytics(store), basePath: "/account", signIn: "/", theme: { name: "Reports" } };
app.use("/account", createPortalListener(keyring, { owner, apiId, prefix: "rep", ceiling, ...page }));
app.get("/", (_req, res) => void res.send(SIGN_UP));
app.post("/sign-up", express.urlencoded(), async (req, res) => {
  const { email } = req.body as { email: string };
  await keyring.createIdentity({ externalId: email, credits, ratelimits }).catch(unlessKnown);
  const session = randomBytes(32).toString("hex");
  sessions.set(session, email);
  res.cookie("session", session, { httpOnly: true, sameSite: "strict" }).redirect("/account/");
});

function unlessKnown(error: unknown): void {
  if (!isKeystileError(error) || error.code !== "CONFLICT") throw error;
}
const SIGN_UP = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Reports</title><form method="post" action="/sign-up">
<label>E-mail <input name="email" type="email" required></label><button>Sign up</button></form>`;

const server = app.listen(Number(process.env["PORT"] ?? 0), "127.0.0.1", () =>
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
);
