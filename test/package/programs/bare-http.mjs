// The service as a worker has it: one function of a Request, where nothing of Node exists.
import { createKeyring, memoryStore } from "keystile";
import { createHandler } from "keystile/http";

const store = memoryStore();
const keyring = createKeyring(store);
const { apiId } = await keyring.createApi({ name: "documents" });
const { key } = await keyring.createKey({ apiId });
const { key: rootKey } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
const headers = { authorization: `Bearer ${rootKey}`, "content-type": "application/json" };
const handler = createHandler(store);
const response = await handler(
  new Request("http://keys.test/v2/keys.verifyKey", { method: "POST", headers, body: JSON.stringify({ key }) }),
);
const code = (await response.json()).data.code;
export { code };
