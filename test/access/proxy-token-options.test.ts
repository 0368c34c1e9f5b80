/** Proxy tokens: which key is tried, what a secret may be, explicit types, and tokens that are accepted once. */
import { createHmac, generateKeyPairSync, webcrypto } from "node:crypto";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createProxyTokenVerifier, type ProxyTokenOptions, signProxyToken } from "../../src/access/proxy-token.js";
import { NOON } from "../keyring/support.js";

const SECRET = "0123456789abcdef0123456789abcdef";
const NOW = NOON / 1_000;
const OPTIONS: ProxyTokenOptions = { issuer: "dashboard", audience: "keystile", keys: [{ secret: SECRET }] };
const CLAIMS = { iss: "dashboard", aud: "keystile", sub: "user_1", workspaceId: "ws_1", iat: NOW, exp: NOW + 60 };
const BEARER = { subject: "user_1", workspaceId: "ws_1", permissions: [] };

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
function token(claims: object = CLAIMS, header: object = {}, secret = SECRET): string {
  const text = `${encode({ alg: "HS256", ...header })}.${encode(claims)}`;
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}
const verifier = (more: Partial<ProxyTokenOptions> = {}) => {
  const verify = createProxyTokenVerifier({ ...OPTIONS, ...more });
  return async (text: string, now = NOON) => (await verify(text, now)) !== undefined;
};

afterEach(() => void vi.restoreAllMocks());

describe("proxy token keys: secrets", () => {
  const secrets = Array.from({ length: 15 }, (_, i) => `secret number ${i}`.padStart(32, "s"));

  it("imports each once, however many tokens come", async () => {
    const importing = vi.spyOn(globalThis.crypto.subtle, "importKey");
    const holds = verifier({ keys: secrets.map((secret) => ({ secret })) });
    expect(importing, "not where the verifier is made").not.toHaveBeenCalled();
    for (let i = 0; i < 5; i++) expect(await holds(token())).toBe(false);
    expect(await holds(token(CLAIMS, {}, secrets[14]))).toBe(true);
    expect(importing).toHaveBeenCalledTimes(15);
  });

  it("imports it again after a failure, which rises", async () => {
    vi.spyOn(globalThis.crypto.subtle, "importKey").mockRejectedValueOnce(new Error("out of memory"));
    const holds = verifier();
    await expect(holds(token())).rejects.toThrow("out of memory");
    expect(await holds(token())).toBe(true);
  });

  it("refuses PEM text, which may be a public key, as text and as bytes", () => {
    const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const pems = [
      publicKey.export({ type: "spki", format: "pem" }),
      privateKey.export({ type: "pkcs8", format: "pem" }),
    ];
    for (const secret of pems.flatMap((pem) => [
      String(pem),
      `\n ${String(pem)}`,
      new TextEncoder().encode(String(pem)),
    ])) {
      const make = () => verifier({ keys: [{ secret: SECRET }, { secret }] });
      expect(make).toThrow(/keys\[1\]\.secret must not be PEM text/);
      expect(make).not.toThrow(/MII/);
    }
  });
});

describe("proxy token keys: CryptoKeys", () => {
  it("refuses one of another curve", async () => {
    const { publicKey } = await webcrypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-384" }, false, [
      "sign",
      "verify",
    ]);
    expect(() => verifier({ keys: [{ algorithm: "ES256", publicKey }] })).toThrow(
      /keys\[0\]\.publicKey must be a key of ES256/,
    );
  });
});

describe("proxy token keys: kid", () => {
  it("a key with a kid verifies tokens that name it or none; a key without verifies any", async () => {
    const named = verifier({ keys: [{ secret: SECRET, kid: "2026" }] });
    expect([await named(token(CLAIMS, { kid: "2026" })), await named(token())]).toEqual([true, true]);
    for (const kid of ["2025", "", "2026 "]) expect(await named(token(CLAIMS, { kid })), kid).toBe(false);
    expect(await verifier()(token(CLAIMS, { kid: "2025" }))).toBe(true);
  });

  it("the other keys are not tried", async () => {
    const keys = Array.from({ length: 15 }, (_, i) => ({ secret: SECRET, kid: String(i) }));
    const holds = verifier({ keys });
    const verifying = vi.spyOn(globalThis.crypto.subtle, "verify");
    expect(await holds(token(CLAIMS, { kid: "14" }))).toBe(true);
    expect(await holds(token(CLAIMS, { kid: "15" }))).toBe(false);
    expect(verifying).toHaveBeenCalledTimes(1);
  });

  it("is the JWK's own unless one is given, and the signer writes it", async () => {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    const jwk = { ...publicKey.export({ format: "jwk" }), kid: "own" };
    const sign = (kid: string) =>
      signProxyToken(BEARER, {
        ...OPTIONS,
        keys: [{ algorithm: "EdDSA", publicKey, privateKey, kid }],
        clock: () => NOON,
      });
    expect(decodeProtectedHeader(await sign("own"))).toEqual({ alg: "EdDSA", typ: "JWT", kid: "own" });
    const own = verifier({ keys: [{ algorithm: "EdDSA", publicKey: jwk }] });
    expect([await own(await sign("own")), await own(await sign("given"))]).toEqual([true, false]);
    const given = verifier({ keys: [{ algorithm: "EdDSA", publicKey: jwk, kid: "given" }] });
    expect([await given(await sign("own")), await given(await sign("given"))]).toEqual([false, true]);
  });

  it("chooses no algorithm: a kid of another key's does not make its secret one", async () => {
    const { publicKey } = generateKeyPairSync("ed25519");
    const holds = verifier({
      keys: [
        { algorithm: "EdDSA", publicKey, kid: "1" },
        { secret: SECRET, kid: "2" },
      ],
    });
    expect([await holds(token(CLAIMS, { kid: "1" })), await holds(token(CLAIMS, { kid: "2" }))]).toEqual([false, true]);
  });
});

describe("proxy tokens: explicit type", () => {
  it("with the option a token must have it; without, JWT or none", async () => {
    const typed = verifier({ typ: "keystile+jwt" });
    for (const typ of ["keystile+jwt", "KEYSTILE+JWT", "application/keystile+jwt"])
      expect(await typed(token(CLAIMS, { typ })), typ).toBe(true);
    for (const header of [{}, { typ: "JWT" }, { typ: "at+jwt" }, { typ: "" }, { typ: ["keystile+jwt"] }, { typ: null }])
      expect(await typed(token(CLAIMS, header)), JSON.stringify(header)).toBe(false);
    const plain = verifier();
    for (const header of [{ typ: "keystile+jwt" }, { typ: null }, { typ: "" }])
      expect(await plain(token(CLAIMS, header))).toBe(false);
  });

  it("the signer writes it", async () => {
    const signed = await signProxyToken(BEARER, { ...OPTIONS, typ: "keystile+jwt", clock: () => NOON });
    expect([await verifier({ typ: "keystile+jwt" })(signed), await verifier()(signed)]).toEqual([true, false]);
  });
});

describe("proxy tokens: times", () => {
  it("one that ends before it begins does not hold, though both are within the tolerance", async () => {
    expect(await verifier()(token({ ...CLAIMS, iat: NOW + 3, exp: NOW + 4 }))).toBe(true);
    expect(await verifier()(token({ ...CLAIMS, iat: NOW + 3, exp: NOW + 3 }))).toBe(false);
  });
});

describe("proxy tokens: ids", () => {
  it("a token holds until it ends, with any id or none", async () => {
    const holds = verifier();
    for (const jti of ["a", "a", undefined, 1]) expect(await holds(token({ ...CLAIMS, jti }))).toBe(true);
  });

  it("the signer gives each token another id", async () => {
    const sign = () => signProxyToken(BEARER, { ...OPTIONS, clock: () => NOON });
    const [first, second] = [await sign(), await sign()];
    expect(decodeJwt(first).jti).not.toBe(decodeJwt(second).jti);
  });
});

describe("proxy token options", () => {
  it.each<[object, RegExp]>([
    [{ typ: "" }, /options\.proxyTokens\.typ/],
    [{ keys: [{ secret: SECRET, kid: "" }] }, /keys\[0\]\.kid/],
    [{ keys: [{ secret: SECRET, kid: 1 }] }, /keys\[0\]\.kid/],
  ])("%j throws", (more, message) => {
    expect(() => verifier(more as never)).toThrow(message);
  });
});
