/** Jobs that spend credits: BullMQ on `REDIS_URL`. The first job fails once after it has paid, the second for good. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type Job, Queue, UnrecoverableError, Worker } from "bullmq";
import { createKeyring, createVerifier, memoryStore } from "keystile";

const store = memoryStore(); // yours: postgresStore(pool), or sqliteStore("keys.db") on one host
const keyring = createKeyring(store);
// Retries are recognised for as long as jobs are retried.
const verifier = createVerifier(store, { idempotency: { ttl: 7 * 86_400_000 } });

interface Report {
  readonly customer: string;
  readonly pages: number;
}

/** A job pays once, however often it runs, in whatever process. If its last attempt fails, it gets its credits back. */
async function run(job: Job<Report>) {
  const { customer, pages } = job.data;
  const paid = await verifier.spend({ identity: customer }, { cost: pages }, { idempotencyKey: `pay ${job.id}` });
  if (paid.code !== "VALID") throw new UnrecoverableError(paid.code); // a retry would not help
  try {
    await render(job);
  } catch (error) {
    const isLast = job.attemptsMade + 1 >= (job.opts.attempts ?? 1);
    const refund = {
      identity: customer,
      operation: "increment",
      value: pages,
      reason: `job ${job.id} failed`,
    } as const;
    if (isLast) await keyring.updateIdentityCredits(refund, { idempotencyKey: `refund ${job.id}` });
    throw error;
  }
}

const connection = { url: process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379" };
const queue = new Queue<Report>("reports", { connection });
const worker = new Worker<Report>(queue.name, run, { connection });

/** For a guarded route, after it has checked the key: `customer` is `key.identity.externalId`. */
const enqueue = (report: Report) => queue.add("report", report, { jobId: randomUUID(), attempts: 2 });

/** The work, which fails for one page at first, and always for two. */
async function render({ data, attemptsMade }: Job<Report>) {
  const { remaining } = await keyring.getBalance({ identity: data.customer });
  console.log(`attempt ${attemptsMade + 1} of ${data.pages} pages: ${remaining} left`);
  if (data.pages === 2 || attemptsMade === 0) throw new Error("the printer is out of paper");
}

await keyring.createIdentity({ externalId: "customer_1", credits: { remaining: 100 } });
for (const pages of [1, 2, 1_000]) {
  const settled = Promise.race([once(worker, "completed"), untilFailed()]);
  await enqueue({ customer: "customer_1", pages });
  await settled;
  const { remaining } = await keyring.getBalance({ identity: "customer_1" });
  console.log(`${pages} pages: ${remaining} left`);
}
await worker.close();
await queue.close();
await verifier.close();

/** Resolves when a job has failed for good. */
function untilFailed() {
  return new Promise<void>((resolve) => {
    worker.on("failed", (job) => void job?.getState().then((state) => state === "failed" && resolve()));
  });
}
