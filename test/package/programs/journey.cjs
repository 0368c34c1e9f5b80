/** What a newcomer's program does, tried through whichever build it is handed. Answers what happened, as plain data. */
module.exports = async function journey(keystile, sqlite, file) {
  const { createKeyring, createVerifier, memoryStore, KeystileError } = keystile;

  const codeOf = async (store) => {
    const keyring = createKeyring(store);
    const { apiId } = await keyring.createApi({ name: "documents" });
    const { key } = await keyring.createKey({ apiId, permissions: ["documents.*"], credits: { remaining: 1 } });
    const verifier = createVerifier(store);
    const { code, credits } = await verifier.verify({ key, permissions: "documents.read" });
    await verifier.close();
    return { code, credits };
  };
  const failureOf = async (act) => {
    try {
      await act();
      return "nothing failed";
    } catch (error) {
      return { code: error.code, message: error.message, isKeystileError: error instanceof KeystileError };
    }
  };

  const onSqlite = async (path, options) => {
    const store = sqlite.sqliteStore(path, options);
    const outcome = await codeOf(store);
    await store.close();
    return outcome;
  };
  return {
    memory: await codeOf(memoryStore()),
    badRequest: await failureOf(() => createVerifier(memoryStore()).verify({})),
    sqlite: await onSqlite(file).catch((error) => failureOf(() => Promise.reject(error))),
    // The thread's program is a file of the package that only its name leads to.
    thread: await onSqlite(`${file}-thread`, { writer: "thread" }).catch((error) =>
      failureOf(() => Promise.reject(error)),
    ),
  };
};
