/**
 * A plan for sale: each customer has 1,000 calls a month and 100 a minute, whatever keys they hold, a page to look
 * after them, and 10,000 once they have paid for it. `docs/sell-a-plan.md` explains it. Arguments: the database, and
 * the file that stands in for a mail server. `WEBHOOK_SECRET` signs what the payment provider sends.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { appendFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import express from "express";
import { createAlerts, createKeyring, createVerifier, forOwner, isKeystileError } from "keystile";
import { apiKey, verifiedKey } from "keystile/express";
import { sqliteStore } from "keystile/sqlite";

const [database = "saas.db", mails = "mails.txt"] = process.argv.slice(2);
const store = sqliteStore(database);
const keyring = createKeyring(store);
const verifier = createVerifier(store, { analytics: true });
createAlerts(store, {
  creditsBelow: 100,
  interval: 5_000,
  deliver: (alert) =>
    alert.type === "credits.low" &&
    appendFile(mails, `To: ${alert.externalId}\nOf your credits ${alert.remaining} are left.\n\n`),
});
const { apiId } = await keyring.getOrCreateApi({ apiId: "api_reports", name: "reports" });

// The plans. Keys draw on them together, so new keys bring no new credits. What is left at the end of a month expires.
const monthly = (amount: number) => ({ interval: "monthly", amount, refillDay: 1, rollover: 0 }) as const;
const plans = { free: monthly(1_000), pro: monthly(10_000) };
const credits = { remaining: 1_000, refill: plans.free };
const ratelimits = [{ name: "calls", limit: 100, duration: 60_000, autoApply: true }];
const keysOf = (email: string) =>
  forOwner(keyring, email, {
    apiId,
    prefix: "rep",
    ceiling: { identity: true, keys: 5, permissions: ["reports.read"] },
  });

const app = express().use(express.urlencoded());
const sessions = new Map<string, string>();

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

// Their page. Take the customer from the session, never from the request.
app.post("/sign-up", async (req, res) => {
  const { email } = req.body as { email: string };
  // A real program asks for a password, or sends a link; whoever comes back finds their plan as it is.
  await keyring.createIdentity({ externalId: email, credits, ratelimits }).catch(unlessKnown);
  const session = randomBytes(32).toString("hex");
  sessions.set(session, email);
  res.cookie("session", session, { httpOnly: true, sameSite: "strict" }).redirect("/");
});
app.use((req, res, next) => {
  const email = sessions.get(/session=(\w+)/.exec(req.headers.cookie ?? "")?.[1] ?? "");
  if (email === undefined) return void res.send(page(SIGN_UP));
  res.locals["email"] = email;
  next();
});
app.get("/", async (_req, res) => void res.send(await dashboard(res.locals["email"] as string)));
app.post("/keys/:action", async (req, res) => {
  const email = res.locals["email"] as string;
  const { keyId = "", name = "" } = req.body as Record<string, string>;
  const mine = keysOf(email);
  const actions: Readonly<Record<string, () => Promise<object>>> = {
    create: () => mine.create({ ...(name && { name }), permissions: ["reports.read"] }),
    rename: () => mine.rename({ keyId, name: name || null }),
    rotate: () => mine.rotate({ keyId, overlap: 3_600_000 }),
    revoke: () => mine.revoke({ keyId }),
  };
  const done = await actions[req.params.action]?.();
  // The one time that the key's text is shown.
  if (done !== undefined && "key" in done) res.send(await dashboard(email, done.key as string));
  else res.redirect("/");
});

function unlessKnown(error: unknown): void {
  if (!isKeystileError(error) || error.code !== "CONFLICT") throw error;
}

async function dashboard(email: string, made?: string): Promise<string> {
  const mine = keysOf(email);
  const { credits: left } = await keyring.getIdentity({ identity: email });
  const { data: keys } = await mine.list();
  const days = await mine.usage({ by: "day" });
  const button = (action: string, keyId: string, field = "") =>
    `<form method="post" action="/keys/${action}"><input type="hidden" name="keyId" value="${keyId}">${field}<button>${action}</button></form>`;
  const rows = keys.map(
    ({ keyId, start, name, expires }) =>
      `<tr><td><code>${start}…</code><td>${expires === undefined ? "" : "until it is replaced"}` +
      `<td>${button("rename", keyId, `<input name="name" aria-label="Name" value="${escape(name ?? "")}">`)}` +
      `<td>${button("rotate", keyId)}<td>${button("revoke", keyId)}`,
  );
  const used = days.map(
    ({ time = 0, count, spent }) => `<tr><td>${new Date(time).toISOString().slice(0, 10)}<td>${count}<td>${spent}`,
  );
  return page(
    `<p>${escape(email)}: <b id="left">${left?.remaining ?? 0}</b> credits are left of ${left?.refill?.amount ?? 0} this month.</p>` +
      (made === undefined
        ? ""
        : `<p role="status">Copy it now, it is not shown again: <code id="made">${made}</code></p>`) +
      `<h2>Keys</h2><table>${rows.join("")}</table>` +
      `<form method="post" action="/keys/create"><input name="name" placeholder="Name"><button>create</button></form>` +
      `<h2>Usage</h2><table id="usage"><tr><th>Day<th>Calls<th>Credits${used.join("")}</table>`,
  );
}

const SIGN_UP = `<form method="post" action="/sign-up"><input name="email" type="email" required placeholder="E-mail"><button>sign up</button></form>`;
const page = (body: string) =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>Reports</title><style>body{font:16px system-ui;max-width:50rem;margin:2rem auto}td,th{padding:.2rem .8rem;text-align:left}form{display:inline}</style><h1>Reports</h1>${body}`;
const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

const server = app.listen(Number(process.env["PORT"] ?? 0), "127.0.0.1", () =>
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
);
