// A server of the whole service, asked once over a socket, and closed.
import { createKeyring, memoryStore } from "keystile";
import { createServer } from "keystile/http";
import serving from "./serving.cjs";

console.log(await serving(createKeyring, memoryStore, createServer));
