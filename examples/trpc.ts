import type { AddressInfo } from "node:net";
import { initTRPC } from "@trpc/server";
import { type CreateHTTPContextOptions, createHTTPServer } from "@trpc/server/adapters/standalone";
import { apiKey } from "keystile/trpc";
import { apiId, tell, verifier } from "./keys.js";

const createContext = ({ req, res }: CreateHTTPContextOptions) => ({ req, res });
const t = initTRPC.context<typeof createContext>().create();

const reads = t.procedure.use(apiKey(verifier, { apiId, permissions: "documents.read" }));
const router = t.router({ documents: reads.query(({ ctx }) => ({ documents: [], keyId: ctx.apiKey.keyId })) });

const server = createHTTPServer({ router, createContext });
server.listen(Number(process.env["PORT"] ?? 0), "127.0.0.1", () =>
  tell(`http://127.0.0.1:${(server.address() as AddressInfo).port}/documents`),
);
