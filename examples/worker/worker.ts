/** Keys at the edge: a guarded route in a Worker, its keys in a Durable Object, with console and portal. */
import { env as bindings } from "cloudflare:workers";
import { createConsole } from "keystile/console";
import { keystileObject, type ObjectStub, remoteKeyring, remoteVerifier } from "keystile/durable-object";
import { createPortal } from "keystile/portal";
import { apiKey } from "keystile/web";

interface Env {
  readonly KEYS: { getByName(name: string): ObjectStub & { fetch(request: Request): Promise<Response> } };
  /** A secret of yours; without one nothing can be set up. */
  readonly SETUP_TOKEN?: string;
  /** Whose portal everybody sees: to look at it on your own machine, never in production. */
  readonly DEMO_OWNER?: string;
}

const env = bindings as Env;
const apiId = "api_documents";
const keys = () => env.KEYS.getByName("keys");
const addressOf = (request: Request) => request.headers.get("cf-connecting-ip") ?? undefined;

/** Where the keys are. Its routes `/v2/…` take root keys. */
export class Keys extends keystileObject<Env>({
  verifier: { analytics: true },
  mount: ({ store, keyring, verifier }) => ({
    "/console": createConsole(store, { basePath: "/console", verifier, clientAddress: addressOf }),
    "/account/keys": createPortal(keyring, {
      basePath: "/account/keys",
      apiId,
      ceiling: { permissions: ["documents.read"] },
      // In its place: who your session says is signed in.
      owner: () => env.DEMO_OWNER,
    }),
  }),
}) {}

const verifier = remoteVerifier(keys, { cache: { maxAge: 2_000 } });

const documents = apiKey(
  verifier,
  { apiId, permissions: "documents.read", clientAddress: addressOf },
  (_request, key) => Response.json({ documents: [], keyId: key.keyId, credits: key.credits }),
);

/** Makes the API, a root key for the console and the first key. */
async function setUp(request: Request): Promise<Response> {
  const isAllowed = env.SETUP_TOKEN && request.headers.get("authorization") === `Bearer ${env.SETUP_TOKEN}`;
  if (request.method !== "POST" || !isAllowed) return new Response(null, { status: 404 });
  const keyring = remoteKeyring(keys);
  await keyring.getOrCreateApi({ apiId, name: "documents" });
  const root = await keyring.createRootKey({ name: "setup", permissions: ["svc:v1:ws_default:**#*"] });
  const { key } = await keyring.createKey({ apiId, permissions: ["documents.*"], credits: { remaining: 100 } });
  return Response.json({ rootKey: root.key, key });
}

// oxlint-disable-next-line no-restricted-exports -- what a Worker is
export default {
  fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/setup") return setUp(request);
    return pathname === "/documents" ? documents(request) : keys().fetch(request);
  },
};
