/** Starts a server, verifies a key over a socket, closes it; answers the code. */
module.exports = async function serving(createKeyring, memoryStore, createServer) {
  const store = memoryStore();
  const keyring = createKeyring(store);
  const { apiId } = await keyring.createApi({ name: "documents" });
  const { key } = await keyring.createKey({ apiId });
  const { key: rootKey } = await keyring.createRootKey({ permissions: ["api.*.verify_key"] });
  const server = createServer(store);
  const { url } = await server.listen();
  const headers = { authorization: `Bearer ${rootKey}`, "content-type": "application/json" };
  const response = await fetch(`${url}/v2/keys.verifyKey`, { method: "POST", headers, body: JSON.stringify({ key }) });
  const { data } = await response.json();
  await server.close();
  return data.code;
};
