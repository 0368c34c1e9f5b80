/**
 * Proxy tokens over HTTP: hostile inputs A087–A105 as a client sends them. What a token must hold is tried in
 * `proxy-token.test.ts`.
 */
import { createHmac, generateKeyPairSync } from "node:crypto";
import { createServer as listenHttp } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { signProxyToken } from "../../src/http/index.js";
import { HOSTS, NOON, type World, world } from "./support.js";

const SECRET = "0123456789abcdef0123456789abcdef";
const proxyTokens = { issuer: "dashboard", audience: "keystile", keys: [{ secret: SECRET }] };
const NOW = NOON / 1_000;
const CLAIMS = {
  iss: "dashboard",
  aud: "keystile",
  sub: "user_1",
  workspaceId: "ws_default",
  iat: NOW,
  exp: NOW + 60,
  perms: ["api.*.verify_key"],
};
const encode = (value: unknown) =>
  Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
const hmac = (text: string, hash = "sha256") => createHmac(hash, SECRET).update(text).digest("base64url");
function token(claims: unknown = CLAIMS, header: unknown = { alg: "HS256" }, hash?: string): string {
  const text = `${encode(header)}.${encode(claims)}`;
  return `${text}.${hmac(text, hash)}`;
}
const parts = (header: unknown, signature: string) => `${encode(header)}.${encode(CLAIMS)}.${signature}`;

describe.each(HOSTS)("proxy tokens on the %s host", (host) => {
  let w: World;
  let key: string;
  let asked = 0;
  const listener = listenHttp((_request, response) => void (asked++, response.end("{}")));
  beforeAll(async () => {
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    w = await world({ host, authentication: { proxyTokens } });
    ({ key } = await w.create());
  });
  afterAll(async () => {
    listener.close();
    await w.close();
  });

  it("one that holds lets its bearer in, with its permissions and no more", async () => {
    const good = await signProxyToken(
      { subject: "user_1", workspaceId: "ws_default", permissions: ["api.*.verify_key"] },
      { ...proxyTokens, clock: w.clock },
    );
    for (const credential of [good, token()]) {
      expect((await w.as(credential)("keys.verifyKey", { key })).body.data.code).toBe("VALID");
      expect((await w.as(credential)("apis.createApi", { name: "abc" })).status).toBe(403);
    }
  });

  it("A087–A105: any other is one and the same 401, and no key is fetched from anywhere", async () => {
    const url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/jwks`;
    const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const [head, body, signature] = token().split(".") as [string, string, string];
    const bad: Record<string, string> = {
      "A087 none": parts({ alg: "none" }, ""),
      "A087 nOnE": parts({ alg: "nOnE" }, hmac("x")),
      "A089 HS512": token(CLAIMS, { alg: "HS512" }, "sha512"),
      "A089 missing": token(CLAIMS, {}),
      "A089 array": token(CLAIMS, { alg: ["HS256"] }),
      "A089 number": token(CLAIMS, { alg: 256 }),
      "A091 jwk": token(CLAIMS, { alg: "HS256", jwk: publicKey.export({ format: "jwk" }) }),
      "A091 jku": token(CLAIMS, { alg: "HS256", jku: url }),
      "A091 x5u": token(CLAIMS, { alg: "HS256", x5u: url }),
      "A093 no exp": token({ ...CLAIMS, exp: undefined }),
      "A093 exp text": token({ ...CLAIMS, exp: "9999999999" }),
      "A093 exp null": token({ ...CLAIMS, exp: null }),
      "A093 exp 1e308": token(
        `{"iss":"dashboard","aud":"keystile","sub":"u","workspaceId":"ws_default","iat":${NOW},"exp":1e308}`,
      ),
      "A093 exp in ms": token({ ...CLAIMS, exp: NOON + 60_000 }),
      "A093 past": token({ ...CLAIMS, iat: NOW - 120, exp: NOW - 60 }),
      "A095 aud": token({ ...CLAIMS, aud: "other" }),
      "A095 no aud": token({ ...CLAIMS, aud: undefined }),
      "A095 iss": token({ ...CLAIMS, iss: "other" }),
      "A095 no sub": token({ ...CLAIMS, sub: undefined }),
      "A095 no workspace": token({ ...CLAIMS, workspaceId: undefined }),
      "A097 padding": `${head}=.${body}.${signature}`,
      "A097 alphabet": `${head}.${body}.${signature.slice(0, -1)}+`,
      "A099 twice": token(
        `{"iss":"dashboard","aud":"keystile","sub":"u","workspaceId":"ws_default","iat":${NOW},"exp":${NOW - 1},"exp":${NOW + 60}}`,
      ),
      "A103 zeros": parts({ alg: "ES256" }, Buffer.alloc(64).toString("base64url")),
      "A105 forged": `${head}.${body}.${hmac("x")}`,
    };
    const bodies = new Set<string>();
    for (const [name, credential] of Object.entries(bad)) {
      const answer = await w.as(credential)("keys.verifyKey", { key });
      expect([name, answer.status]).toEqual([name, 401]);
      bodies.add(JSON.stringify(answer.body.error));
    }
    expect(bodies.size).toBe(1);
    expect([...bodies][0]).toContain("/errors/keystile/authentication/token_invalid");
    expect(asked).toBe(0);
    for (const credential of [`${token()}.x`, `${token()}.x.y`])
      expect((await w.as(credential)("keys.verifyKey", { key })).status, "A097: four and five parts").toBe(401);
  });

  it("a configured key that is no point of its curve is no fault of the server: 401, as for any token that does not hold", async () => {
    const { x, ...rest } = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" });
    const keys = [{ algorithm: "ES256", publicKey: { ...rest, x: rest.y, y: x } }] as const;
    const faults: unknown[] = [];
    const { as, close } = await world({
      host,
      onError: (error) => faults.push(error),
      authentication: { proxyTokens: { ...proxyTokens, keys } },
    });
    const credential = parts({ alg: "ES256" }, Buffer.alloc(64).toString("base64url"));
    expect([(await as(credential)("keys.verifyKey", { key })).status, faults]).toEqual([401, []]);
    await close();
  });
});
