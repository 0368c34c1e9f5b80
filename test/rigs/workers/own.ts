/**
 * Creates keys of one owner, as one of several processes on a file, until each attempt has ended. Tells how they ended.
 */
import { isKeystileError } from "../../../src/contracts/errors.js";
import type { Store } from "../../../src/contracts/store.js";
import { createKeyring } from "../../../src/keyring/keyring.js";
import { forOwner } from "../../../src/keyring/owner/owner-keys.js";
import { sqliteStore } from "../../../src/stores/sqlite/index.js";
import { PATIENT } from "./patience.js";

export interface OwnOrders {
  readonly file: string;
  readonly apiId: string;
  readonly keys: number;
  readonly attempts: number;
  /**
   * The planted fault: a new key is stored without its owner's identity, whose version would find the other process.
   */
  readonly withoutOwner?: boolean;
}

const orders = JSON.parse(process.argv[2]!) as OwnOrders;
const store = sqliteStore(orders.file, PATIENT);
const keyring = createKeyring(orders.withoutOwner === true ? dropIdentities(store) : store);
const owner = forOwner(keyring, "auth0|me", { apiId: orders.apiId, ceiling: { keys: orders.keys } });

/** Slowly, so that the processes meet at the last place. */
function dropIdentities(real: Store): Store {
  return {
    ...real,
    async write(writes) {
      await new Promise((resolve) => setTimeout(resolve, 30));
      return real.write(writes.length > 1 ? writes.filter(({ table }) => table !== "identities") : writes);
    },
  };
}

process.once("message", () => {
  void (async () => {
    const ends: Record<string, number> = {};
    const attempt = async () => {
      const end = await owner.create().then(
        () => "created",
        (error: unknown) => (isKeystileError(error) ? error.code : String(error)),
      );
      ends[end] = (ends[end] ?? 0) + 1;
    };
    await Promise.all(Array.from({ length: orders.attempts }, attempt));
    await store.close();
    process.send!({ ends }, () => process.disconnect());
  })();
});
process.send!({ ready: true });
