/** Administers a file from another process: does what it is told, and says so once it is committed. */
import { createKeyring } from "../../../src/keyring/keyring.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { PATIENT } from "./patience.js";

export interface RevokeOrders {
  readonly file: string;
}

/** What is changed, and whether the key may pass from then on. */
export interface RevokeCommand {
  readonly what: "key" | "api" | "permission" | "role" | "credits";
  readonly passes: boolean;
  readonly keyId: string;
  readonly apiId: string;
}

const { file } = JSON.parse(process.argv[2]!) as RevokeOrders;
const store = sqliteStore(file, PATIENT);
const keyring = createKeyring(store);

const ACTS: Readonly<Record<RevokeCommand["what"], (command: RevokeCommand) => Promise<unknown>>> = {
  key: ({ keyId, passes }) => keyring.updateKey({ keyId, enabled: passes }),
  api: ({ apiId, passes }) => keyring.updateApi({ apiId, enabled: passes }),
  permission: ({ keyId, passes }) =>
    keyring.setPermissions({ keyId, permissions: passes ? ["docs.read"] : ["docs.write"] }),
  role: ({ keyId, passes }) => keyring.setRoles({ keyId, roles: passes ? ["reader"] : [] }),
  credits: ({ keyId, passes }) => keyring.updateCredits({ keyId, operation: "set", value: passes ? 1_000_000 : 0 }),
};

process.on("message", (command: RevokeCommand) => {
  void ACTS[command.what](command).then(
    () => process.send!({ done: true }),
    (error: unknown) => process.send!({ error: String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));
process.send!({ ready: true });
