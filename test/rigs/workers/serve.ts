/** Serves a file, with bounds taken out where a control says so. Tells its port; collects its garbage on a word. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createConsoleListener } from "../../../src/console/index.js";
import { createBoundedServer } from "../../../src/http/node/server.js";
import { createNodeListener, type NodeListener, type ServerOptions } from "../../../src/http/index.js";
import { memoryLimiter } from "../../../src/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import type { Bounds } from "../neighbours.js";
import type { Host } from "../neighbours/attacks.js";

export interface ServeOrders {
  readonly file: string;
  readonly host: Host;
  readonly options: ServerOptions;
  readonly bounds: Bounds;
}

/** So few that a flood fills them. */
const LIMITER_SIZE = 2_000;

const { file, host, options, bounds: given } = JSON.parse(process.argv[2]!) as ServeOrders;
const { limiterShare = true, ...bounds } = given;
const shared = memoryLimiter({ size: LIMITER_SIZE });
const limiter = {
  take: (...[checks, now]: Parameters<typeof shared.take>) =>
    shared.take(limiterShare ? checks : checks.map((check) => ({ ...check, workspaceId: "all" })), now),
};
const store = sqliteStore(file, { durability: "process" });

async function listen(listener: NodeListener): Promise<number> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const HOSTS: Readonly<Record<Host, () => Promise<number>>> = {
  server: async () => (await createBoundedServer(store, { ...options, verifier: { limiter } }, bounds).listen()).port,
  listener: () => listen(createNodeListener(store, { verifier: { limiter } })),
  console: () => listen(createConsoleListener(store)),
};
const port = await HOSTS[host]();
// Where it does not end with the rig, it must not outlive it.
process.once("disconnect", () => process.exit());
process.on("message", () => (globalThis as { gc?: () => void }).gc!());
process.send!({ port });
