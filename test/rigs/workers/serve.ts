/** Serves a file, with bounds taken out where a control says so. Tells its port; collects its garbage on a word. */
import { createBoundedServer } from "../../../src/http/node/server.js";
import type { ServerOptions } from "../../../src/http/index.js";
import { memoryLimiter } from "../../../src/index.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import type { Fault } from "../neighbours.js";

export interface ServeOrders {
  readonly file: string;
  readonly options: ServerOptions;
  readonly fault: Fault;
}

/** So few that a flood fills them. */
const LIMITER_SIZE = 2_000;

const { file, options, fault } = JSON.parse(process.argv[2]!) as ServeOrders;
const { limiterShare = true, ...bounds } = fault;
const shared = memoryLimiter({ size: LIMITER_SIZE });
const limiter = {
  take: (...[checks, now]: Parameters<typeof shared.take>) =>
    shared.take(limiterShare ? checks : checks.map((check) => ({ ...check, workspaceId: "all" })), now),
};
const store = sqliteStore(file, { durability: "process" });
const server = createBoundedServer(store, { ...options, verifier: { limiter } }, bounds);
const { port } = await server.listen();
// Where it does not end with the rig, it must not outlive it.
process.once("disconnect", () => process.exit());
process.on("message", () => (globalThis as { gc?: () => void }).gc!());
process.send!({ port });
