/** What the HTTP service does with a keyring, and the library's methods do not offer. */
import { readFrame } from "../src/keyring/import/import-batches.js";
import { importKeys, type ImportOptions } from "../src/keyring/import/migrate-keys.js";
import { contextOfKeyring, type Keyring } from "../src/keyring/keyring.js";
import { createSpecifiedKey, specifiedKey } from "../src/keyring/keys/create-key.js";
import { runCall } from "../src/keyring/operation.js";
import { parse } from "../src/keyring/schemas/parse.js";
import { anyExternalId } from "../src/keyring/schemas/primitives.js";
import type { V2KeysMigrateKeysRequestBody } from "../src/keyring/schemas/migration-requests.js";
import type { V2KeysCreateKeyRequestBody } from "../src/keyring/schemas/requests.js";

const SCHEMA = specifiedKey(anyExternalId);

/** Creates a key that may have expired already. */
export async function createPastKey(keyring: Keyring, body: V2KeysCreateKeyRequestBody) {
  const call = { context: contextOfKeyring(keyring)!, operation: "createKey" };
  return runCall(call, (context) => createSpecifiedKey(context, parse(SCHEMA, body)));
}

/** Imports keys with the bounds of a service. */
export async function importWithin(keyring: Keyring, body: V2KeysMigrateKeysRequestBody, options: ImportOptions) {
  const call = { context: contextOfKeyring(keyring)!, operation: "migrateKeys" };
  return runCall(call, (context) => importKeys(context, readFrame(body), options));
}
