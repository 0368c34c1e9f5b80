// Bundled for a browser and run where nothing of Node exists: the verdict comes through WebCrypto.
import { createKeyring, createVerifier, memoryStore } from "keystile";

const store = memoryStore();
const keyring = createKeyring(store);
const { apiId } = await keyring.createApi({ name: "documents" });
const { key } = await keyring.createKey({ apiId });
const { code } = await createVerifier(store).verify({ key });
export { code };
