/** Run as a process of its own: opens a file that may not exist yet and adds one key. */
import { sqliteStore } from "../../../../src/stores/sqlite/index.js";

const [path = "", name = ""] = process.argv.slice(2);
const store = sqliteStore(path);
const owned = { workspaceId: "ws_1", version: 0, createdAt: 0 };
await store.write([
  { table: "apis", row: { ...owned, id: "api_1", name: "docs", enabled: true, ipAllowlist: [], deleted: false } },
]);
const row = {
  ...owned,
  id: `key_${name}`,
  apiId: "api_1",
  digest: `digest-${name}`,
  start: "",
  enabled: true,
  permissions: [],
  roles: [],
  ratelimits: [],
  ipAllowlist: [],
  hasCredits: false,
  generation: 0,
  deleted: false,
};
const [inserted] = await store.insertKeys([{ row }]);
await store.close();
process.exitCode = inserted === true ? 0 : 1;
