/**
 * Serves a database, with bounds taken out where a control says so. Tells its port; collects its garbage on a word, and
 * closes on another, when it has written what it counted.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { createConsoleListener } from "../../../src/console/index.js";
import { createBoundedServer } from "../../../src/http/node/server.js";
import { createNodeListener, type NodeListener, type ServerOptions } from "../../../src/http/index.js";
import { memoryLimiter, type Store } from "../../../src/index.js";
import type { Bounds } from "../neighbours.js";
import type { Host } from "../neighbours/attacks.js";
import { type Database, openDatabase } from "../neighbours/open-database.js";

export interface ServeOrders {
  readonly database: Database;
  readonly host: Host;
  readonly options: ServerOptions;
  readonly bounds: Bounds;
  /** Milliseconds by which the store is slower to take counts. */
  readonly countsTake: number;
}

/** So few that a flood fills them. */
const LIMITER_SIZE = 2_000;

const { database, host, options, bounds: given, countsTake } = JSON.parse(process.argv[2]!) as ServeOrders;
const { limiterShare = true, ...bounds } = given;
const shared = memoryLimiter({ size: LIMITER_SIZE });
const limiter = {
  take: (...[checks, now]: Parameters<typeof shared.take>) =>
    shared.take(limiterShare ? checks : checks.map((check) => ({ ...check, workspaceId: "all" })), now),
};
const { store: fast, end } = openDatabase(database);
const slow: Pick<Store, "countOutcomes"> = {
  async countOutcomes(flush) {
    await pause(countsTake);
    return fast.countOutcomes(flush);
  },
};
const store = countsTake > 0 ? { ...fast, ...slow } : fast;

interface Served {
  readonly port: number;
  close(): Promise<void>;
}
async function listen(listener: NodeListener): Promise<Served> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, close: () => listener.close() };
}

const HOSTS: Readonly<Record<Host, () => Promise<Served>>> = {
  async server() {
    const { close, listen } = createBoundedServer(
      store,
      { ...options, verifier: { ...options.verifier, limiter } },
      bounds,
    );
    return { port: (await listen()).port, close };
  },
  listener: () => listen(createNodeListener(store, { verifier: { limiter } })),
  console: () => listen(createConsoleListener(store)),
};
const { port, close } = await HOSTS[host]();
// Where it does not end with the rig, it must not outlive it.
process.once("disconnect", () => process.exit());
process.on("message", (word) => {
  if (word === "close")
    void close()
      .then(end)
      .then(() => process.send!({ isClosed: true }));
  else (globalThis as { gc?: () => void }).gc!();
});
process.send!({ port });
