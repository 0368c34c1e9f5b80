// Both builds in one process: each recognises the other's errors by their brand.
import { createRequire } from "node:module";
import * as esm from "keystile";

const cjs = createRequire(import.meta.url)("keystile");
const errorOf = ({ createVerifier, memoryStore }) =>
  createVerifier(memoryStore())
    .verify({})
    .then(
      () => undefined,
      (error) => error,
    );
const [fromEsm, fromCjs] = [await errorOf(esm), await errorOf(cjs)];
console.log(
  JSON.stringify({
    sameClass: esm.KeystileError === cjs.KeystileError,
    recognised: [esm.isKeystileError(fromCjs), cjs.isKeystileError(fromEsm)],
    others: [esm.isKeystileError(new Error("x")), cjs.isKeystileError(undefined)],
  }),
);
