/**
 * Proxy tokens: ruling F3 and hostile inputs A087–A105. Tokens are written by hand here, so that what a library would
 * not sign is tried too.
 */
import {
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign as signBytes,
  webcrypto,
} from "node:crypto";
import fc from "fast-check";
import { SignJWT } from "jose";
import { describe, expect, it, vi } from "vitest";
import {
  hasRepeatedName,
  createProxyTokenVerifier,
  isTokenShaped,
  type ProxyTokenOptions,
  signProxyToken,
} from "../../src/access/proxy-token.js";
import { NOON } from "../keyring/support.js";
import { runs } from "../runs.js";

const SECRET = "0123456789abcdef0123456789abcdef";
const OTHER = "fedcba9876543210fedcba9876543210";
const NOW = NOON / 1_000;
const OPTIONS: ProxyTokenOptions = { issuer: "dashboard", audience: "keystile", keys: [{ secret: SECRET }] };
const CLAIMS = {
  iss: "dashboard",
  aud: "keystile",
  sub: "user_1",
  workspaceId: "ws_1",
  iat: NOW,
  exp: NOW + 60,
  perms: ["api.*.read_api"],
};
const HEADER = { alg: "HS256", typ: "JWT" };

const encode = (value: unknown) =>
  Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
const hmac = (text: string, secret = SECRET, hash = "sha256") =>
  createHmac(hash, secret).update(text).digest("base64url");
/** A token with a right HS256 signature whatever it says; strings stand for JSON as written. */
function token(claims: unknown, header: unknown = HEADER, secret = SECRET): string {
  const text = `${encode(header)}.${encode(claims)}`;
  return `${text}.${hmac(text, secret)}`;
}
const verify = (text: string, options: ProxyTokenOptions = OPTIONS, now = NOON) =>
  createProxyTokenVerifier(options)(text, now);
const holds = async (text: string, options?: ProxyTokenOptions, now?: number) =>
  (await verify(text, options, now)) !== undefined;
const without = (name: string) => Object.fromEntries(Object.entries(CLAIMS).filter(([key]) => key !== name));

describe("proxy token: what holds", () => {
  it("answers subject, workspace and permissions", async () => {
    const expected = { subject: "user_1", workspaceId: "ws_1", permissions: ["api.*.read_api"] };
    expect(await verify(token(CLAIMS))).toEqual(expected);
    expect(await verify(await signProxyToken(expected, { ...OPTIONS, clock: () => NOON }))).toEqual(expected);
    expect(
      await verify(await new SignJWT(CLAIMS).setProtectedHeader({ alg: "HS256", kid: "1" }).sign(Buffer.from(SECRET))),
    ).toEqual(expected);
  });

  it("permissions may be absent: a caller who may do nothing; other claims are ignored", async () => {
    expect(
      await verify(token({ ...without("perms"), jti: "1", name: "é", nested: { a: [1, { a: 2 }] } })),
    ).toMatchObject({
      permissions: [],
    });
  });

  it("A095: an `aud` list with ours in it holds", async () => {
    expect(await holds(token({ ...CLAIMS, aud: ["other", "keystile"] }))).toBe(true);
  });

  it("a workspace that every object inherits is no claim", async () => {
    const unnamed = token(without("workspaceId"));
    Object.assign(Object.prototype, { workspaceId: "ws_1" });
    try {
      expect(await holds(unnamed)).toBe(false);
    } finally {
      Reflect.deleteProperty(Object.prototype, "workspaceId");
    }
  });

  it("the claim of the workspace is an option", async () => {
    const options = { ...OPTIONS, workspaceClaim: "org" };
    expect(await verify(token({ ...without("workspaceId"), org: "ws_9" }), options)).toMatchObject({
      workspaceId: "ws_9",
    });
    expect(await holds(token(CLAIMS), options)).toBe(false);
  });

  it("times: over at exp, a signer's clock may be 5 s ahead, exp is honoured to the millisecond", async () => {
    expect(await holds(token(CLAIMS), OPTIONS, (NOW + 60) * 1_000 - 1)).toBe(true);
    expect(await holds(token(CLAIMS), OPTIONS, (NOW + 60) * 1_000)).toBe(false);
    expect(await holds(token(CLAIMS), OPTIONS, (NOW - 5) * 1_000)).toBe(true);
    expect(await holds(token(CLAIMS), OPTIONS, (NOW - 5) * 1_000 - 1)).toBe(false);
    expect(await holds(token({ ...CLAIMS, nbf: NOW + 5 }))).toBe(true);
    expect(await holds(token({ ...CLAIMS, nbf: NOW + 6 }))).toBe(false);
    expect(await holds(token({ ...CLAIMS, iat: NOW - 240, exp: NOW + 60 }))).toBe(true);
    expect(await holds(token({ ...CLAIMS, iat: NOW - 240.0, exp: NOW + 61 }))).toBe(false);
  });
});

describe("proxy token: claims at their bounds", () => {
  it("hold: a subject of 255 characters, a thousand permissions, a token of 8,192 characters, sixteen keys", async () => {
    expect(await holds(token({ ...CLAIMS, sub: "s".repeat(255) }))).toBe(true);
    expect(await holds(token({ ...CLAIMS, perms: Array.from({ length: 1_000 }, () => "x") }))).toBe(true);
    // Three characters of claims are four of a token.
    const padded = (length: number) => token({ ...CLAIMS, pad: "p".repeat(length) });
    let length = Math.floor(((8_192 - padded(0).length) * 3) / 4) - 3;
    while (padded(length + 1).length <= 8_192) length++;
    expect([await holds(padded(length)), await holds(padded(length + 1))]).toEqual([true, false]);
    const others = Array.from({ length: 15 }, (_, i) => ({ secret: `${SECRET}${i}` }));
    expect(await holds(token(CLAIMS), { ...OPTIONS, keys: [...others, { secret: SECRET }] })).toBe(true);
  });
});

describe("proxy token: claims that do not hold", () => {
  const bad: [what: string, claims: unknown][] = [
    ...Object.keys(without("perms")).map((name): [string, unknown] => [`${name} missing`, without(name)]),
    ["A095: iss of another", { ...CLAIMS, iss: "Dashboard" }],
    ["iss a list", { ...CLAIMS, iss: ["dashboard"] }],
    ["A095: aud of another", { ...CLAIMS, aud: "keystile2" }],
    ["aud empty", { ...CLAIMS, aud: [] }],
    ["aud with something else", { ...CLAIMS, aud: ["keystile", 1] }],
    ["aud an object", { ...CLAIMS, aud: { keystile: true } }],
    ["sub empty", { ...CLAIMS, sub: "" }],
    ["sub a number", { ...CLAIMS, sub: 1 }],
    ["sub too long", { ...CLAIMS, sub: "s".repeat(256) }],
    ["sub not well formed", JSON.stringify({ ...CLAIMS, sub: "X" }).replace('"X"', '"\\ud800"')],
    ["workspace a number", { ...CLAIMS, workspaceId: 1 }],
    ["workspace with a colon", { ...CLAIMS, workspaceId: "ws_1:x" }],
    ["workspace *", { ...CLAIMS, workspaceId: "*" }],
    ["A093: exp a text", { ...CLAIMS, exp: "9999999999" }],
    ["A093: exp null", { ...CLAIMS, exp: null }],
    ["A093: exp 1e308", JSON.stringify(CLAIMS).replace(`"exp":${NOW + 60}`, '"exp":1e308')],
    ["A093: exp in milliseconds", { ...CLAIMS, exp: NOON + 60_000 }],
    ["A093: both in milliseconds", { ...CLAIMS, iat: NOON, exp: NOON + 60_000 }],
    ["exp with a fraction", { ...CLAIMS, exp: NOW + 60.5 }],
    ["exp before iat", { ...CLAIMS, iat: NOW, exp: NOW }],
    ["exp negative", { ...CLAIMS, iat: -100, exp: -50 }],
    ["more than 5 minutes", { ...CLAIMS, exp: NOW + 301 }],
    ["iat a text", { ...CLAIMS, iat: `${NOW}` }],
    ["iat in the future", { ...CLAIMS, iat: NOW + 6, exp: NOW + 60 }],
    ["nbf null", { ...CLAIMS, nbf: null }],
    ["nbf a text", { ...CLAIMS, nbf: "0" }],
    ["perms a text", { ...CLAIMS, perms: "api.*.read_api" }],
    ["perms null", { ...CLAIMS, perms: null }],
    ["perms with a number", { ...CLAIMS, perms: ["api.*.read_api", 1] }],
    ["perms too many", { ...CLAIMS, perms: Array.from({ length: 1_001 }, () => "x") }],
    ["A099: exp twice, past then future", JSON.stringify(CLAIMS).replace('"exp"', `"exp":1,"exp"`)],
    ["A099: exp twice, future then past", JSON.stringify(CLAIMS).replace(/}$/, `,"exp":1}`)],
    ["A099: a name twice, once escaped", JSON.stringify(CLAIMS).replace(/}$/, `,"\\u0065xp":${NOW + 60}}`)],
    ["A099: a name twice further in", { ...CLAIMS, x: 1 }],
    ["not an object", "[1]"],
    ["null", "null"],
    ["a text", '"x"'],
    ["not JSON", "{"],
    ["a byte order mark", `\ufeff${JSON.stringify(CLAIMS)}`],
  ];
  it.each(bad)("%s", async (what, claims) => {
    const text = what.endsWith("further in") ? JSON.stringify(CLAIMS).replace(/}$/, ',"x":[{"a":1,"a":1}]}') : claims;
    expect(await holds(token(text))).toBe(false);
  });

  it("a payload that is not UTF-8", async () => {
    const bytes = Buffer.concat([
      Buffer.from(JSON.stringify(CLAIMS).slice(0, -1)),
      Buffer.from(',"n":"'),
      Buffer.from([0xff]),
      Buffer.from('"}'),
    ]);
    const text = `${encode(HEADER)}.${bytes.toString("base64url")}`;
    expect(await holds(`${text}.${hmac(text)}`)).toBe(false);
  });

  it("any single claim that is not as signed makes it invalid: nothing is read before the signature (property)", async () => {
    const good = token(CLAIMS);
    await fc.assert(
      fc.asyncProperty(fc.nat(good.length - 1), fc.constantFrom(..."AaZz09-_.= +/"), async (at, letter) => {
        if (good[at] === letter) return;
        expect(await holds(good.slice(0, at) + letter + good.slice(at + 1))).toBe(false);
      }),
      { numRuns: runs(400) },
    );
  });
});

describe("proxy token: headers and forms that do not hold", () => {
  it.each(["none", "nOnE", "NONE", "None"])("A087: alg %s, without and with a signature", async (alg) => {
    const text = `${encode({ alg, typ: "JWT" })}.${encode(CLAIMS)}`;
    for (const signature of ["", hmac(text), "AAAA"]) expect(await holds(`${text}.${signature}`)).toBe(false);
  });

  it("A089: another alg with the right secret; alg missing, a list, a number, in another case", async () => {
    for (const [alg, hash] of [
      ["HS512", "sha512"],
      ["HS384", "sha384"],
    ] as const) {
      const text = `${encode({ alg, typ: "JWT" })}.${encode(CLAIMS)}`;
      expect(
        await holds(`${text}.${hmac(text, SECRET.repeat(2), hash)}`, {
          ...OPTIONS,
          keys: [{ secret: SECRET.repeat(2) }],
        }),
      ).toBe(false);
    }
    for (const header of [
      { typ: "JWT" },
      { alg: ["HS256"] },
      { alg: 256 },
      { alg: "hs256" },
      { alg: null },
      { alg: { HS256: 1 } },
    ]) {
      expect(await holds(token(CLAIMS, header))).toBe(false);
    }
  });

  it.each(["jwk", "jku", "x5u", "x5c", "x5t", "crit", "b64", "zip", "enc", "__proto__"])(
    "A091: a header with %s, signature right",
    async (name) => {
      for (const value of ['"https://attacker.example/k"', "{}", '["x"]', "[]", "true", "false"]) {
        expect(await holds(token(CLAIMS, `{"alg":"HS256","${name}":${value}}`))).toBe(false);
      }
    },
  );

  it("a header that is no object, names alg twice, or has another typ or kid", async () => {
    const headers = [
      "[]",
      "null",
      '"HS256"',
      "{",
      '{"alg":"none","alg":"HS256"}',
      '{"alg":"HS256","alg":"HS256"}',
      '{"alg":"HS256","typ":1}',
    ];
    for (const header of [...headers, '{"alg":"HS256","typ":"at+jwt"}', '{"alg":"HS256","kid":1}'])
      expect(await holds(token(CLAIMS, header)), header).toBe(false);
    expect(await holds(token(CLAIMS, '{"alg":"HS256","typ":"jwt","kid":"2026"}'))).toBe(true);
  });

  it("A097: four parts, five parts, blanks, padding, the other alphabet, stray bits", async () => {
    const good = token(CLAIMS);
    const [header = "", payload = "", signature = ""] = good.split(".");
    // A header and a payload whose base64 has + and /: the signature is right over what stands there.
    const odd = `${Buffer.from('{"alg":"HS256","kid":"\u07ff\u07ff?>?>"}').toString("base64").replace(/=+$/, "")}.${payload}`;
    expect(odd).toMatch(/[+/]/);
    const forms = [
      `${good}.`,
      `${good}.x`,
      `${good}.x.y`,
      `.${good}`,
      ` ${good}`,
      `${header}. ${payload}.${signature}`,
      `${good}\n`,
      `${good}=`,
      `${good}==`,
    ];
    // 43 characters hold 258 bits, the last two stray: another text for the same bytes.
    const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const stray = `${header}.${payload}.${signature.slice(0, -1)}${letters.charAt(letters.indexOf(signature.slice(-1)) + 1)}`;
    expect(Buffer.from(stray.split(".")[2] ?? "", "base64url")).toEqual(Buffer.from(signature, "base64url"));
    for (const form of [...forms, stray, `${odd}.${hmac(odd)}`, `..`, `${header}..${signature}`, signature, ""])
      expect(await holds(form), form).toBe(false);
  });

  it("a token past 8,192 characters, and one of a megabyte, at once", async () => {
    expect(await holds(token({ ...CLAIMS, pad: "x".repeat(5_500) }))).toBe(true);
    expect(await holds(token({ ...CLAIMS, pad: "x".repeat(7_000) }))).toBe(false);
    expect(await holds(token({ ...CLAIMS, pad: "x".repeat(1_000_000) }))).toBe(false);
    expect(await holds(token(`${'{"a":'.repeat(900)}1${"}".repeat(900)}`))).toBe(false);
  });
});

describe("proxy token: keys and rotation", () => {
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ed = generateKeyPairSync("ed25519");
  const pairs = [
    ["RS256", rsa],
    ["ES256", ec],
    ["EdDSA", ed],
  ] as const;
  const claims = { subject: "user_1", workspaceId: "ws_1", permissions: [] };
  const jwk = (key: KeyObject) => key.export({ format: "jwk" }) as Record<string, unknown>;

  it.each(pairs)(
    "%s: as KeyObject, as JWK and as CryptoKey, signed and verified",
    async (algorithm, { publicKey, privateKey }) => {
      const params = {
        RS256: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
        ES256: { name: "ECDSA", namedCurve: "P-256" },
        EdDSA: { name: "Ed25519" },
      }[algorithm];
      const publicCrypto = await webcrypto.subtle.importKey("jwk", publicKey.export({ format: "jwk" }), params, true, [
        "verify",
      ]);
      const privateCrypto = await webcrypto.subtle.importKey(
        "jwk",
        privateKey.export({ format: "jwk" }),
        params,
        false,
        ["sign"],
      );
      const publics = [
        publicKey,
        jwk(publicKey),
        publicCrypto,
        { ...jwk(publicKey), alg: algorithm, use: "sig", kid: "1" },
      ];
      const privates = [privateKey, jwk(privateKey), privateCrypto];
      for (const one of privates) {
        const signed = await signProxyToken(claims, {
          ...OPTIONS,
          keys: [{ algorithm, publicKey, privateKey: one }],
          clock: () => NOON,
        });
        for (const other of publics)
          expect(await verify(signed, { ...OPTIONS, keys: [{ algorithm, publicKey: other }] })).toEqual(claims);
      }
    },
  );

  it("the algorithm is the configured key's: a public key's text is no secret, and each key verifies its own algorithm only", async () => {
    const keys = [{ algorithm: "RS256", publicKey: rsa.publicKey }] as const;
    for (const form of ["pem", "der"] as const) {
      const text = `${encode(HEADER)}.${encode(CLAIMS)}`;
      const secret = rsa.publicKey.export({ type: "spki", format: form as "pem" });
      expect(
        await holds(`${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`, { ...OPTIONS, keys }),
      ).toBe(false);
    }
    const signed = await signProxyToken(claims, {
      ...OPTIONS,
      keys: [{ algorithm: "ES256", publicKey: ec.publicKey, privateKey: ec.privateKey }],
      clock: () => NOON,
    });
    expect(await holds(signed, { ...OPTIONS, keys })).toBe(false);
    expect(
      await holds(signed, {
        ...OPTIONS,
        keys: [...keys, { secret: SECRET }, { algorithm: "ES256", publicKey: ec.publicKey }],
      }),
    ).toBe(true);
  });

  it("A103: ES256 signatures of 64 zero bytes, and in DER", async () => {
    const options: ProxyTokenOptions = { ...OPTIONS, keys: [{ algorithm: "ES256", publicKey: jwk(ec.publicKey) }] };
    const text = `${encode({ alg: "ES256" })}.${encode(CLAIMS)}`;
    const raw = signBytes("sha256", Buffer.from(text), { key: ec.privateKey, dsaEncoding: "ieee-p1363" });
    const der = signBytes("sha256", Buffer.from(text), ec.privateKey);
    expect(await holds(`${text}.${raw.toString("base64url")}`, options)).toBe(true);
    expect(await holds(`${text}.${Buffer.alloc(64).toString("base64url")}`, options)).toBe(false);
    expect(await holds(`${text}.${der.toString("base64url")}`, options)).toBe(false);
  });

  it("rotation: the first key signs, each verifies, and a key that was dropped does not", async () => {
    const sign = (keys: ProxyTokenOptions["keys"]) => signProxyToken(claims, { ...OPTIONS, keys, clock: () => NOON });
    const [before, after] = [await sign([{ secret: SECRET }]), await sign([{ secret: OTHER }, { secret: SECRET }])];
    const both = { ...OPTIONS, keys: [{ secret: OTHER }, { secret: SECRET }] };
    expect([await holds(before, both), await holds(after, both)]).toEqual([true, true]);
    const only = { ...OPTIONS, keys: [{ secret: OTHER }] };
    expect([await holds(before, only), await holds(after, only)]).toEqual([false, true]);
  });

  it("a secret is copied: what becomes of the program's bytes later does not matter", async () => {
    const bytes = new TextEncoder().encode(SECRET);
    const verifier = createProxyTokenVerifier({ ...OPTIONS, keys: [{ secret: bytes }] });
    bytes.fill(0);
    expect(await verifier(token(CLAIMS), NOON)).toBeDefined();
  });

  it("by a JWK that is no point of its curve no token holds, and a key after it still serves", async () => {
    const publicKey = { ...jwk(ec.publicKey), x: jwk(ec.publicKey)["y"], y: jwk(ec.publicKey)["x"] };
    const wrong = { algorithm: "ES256", publicKey } as const;
    const right = { algorithm: "ES256", publicKey: ec.publicKey, privateKey: ec.privateKey } as const;
    const signed = await signProxyToken(claims, { ...OPTIONS, keys: [right], clock: () => NOON });
    expect(await holds(signed, { ...OPTIONS, keys: [wrong] })).toBe(false);
    expect(await holds(signed, { ...OPTIONS, keys: [wrong, right] })).toBe(true);
  });

  it("what no key is to blame for still rises", async () => {
    const keys = [{ algorithm: "ES256", publicKey: jwk(ec.publicKey), privateKey: ec.privateKey }] as const;
    const signed = await signProxyToken(claims, { ...OPTIONS, keys, clock: () => NOON });
    const failing = vi.spyOn(globalThis.crypto.subtle, "importKey").mockRejectedValueOnce(new Error("out of memory"));
    await expect(verify(signed, { ...OPTIONS, keys }).finally(() => failing.mockRestore())).rejects.toThrow(
      "out of memory",
    );
  });

  it("keys that say nothing of themselves are refused", () => {
    for (const publicKey of [{ asymmetricKeyType: "rsa", type: "public" }, { type: "public" }]) {
      const make = () =>
        createProxyTokenVerifier({ ...OPTIONS, keys: [{ algorithm: "RS256", publicKey: publicKey as never }] });
      expect(make).toThrow(/options\.keys|proxyTokens|keys\[0\]/);
    }
  });

  it("a JWK is copied as well", async () => {
    const publicKey = jwk(ec.publicKey);
    const verifier = createProxyTokenVerifier({ ...OPTIONS, keys: [{ algorithm: "ES256", publicKey }] });
    Object.assign(publicKey, jwk(generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey));
    const keys = [{ algorithm: "ES256", publicKey: ec.publicKey, privateKey: ec.privateKey }] as const;
    expect(await verifier(await signProxyToken(claims, { ...OPTIONS, keys, clock: () => NOON }), NOON)).toEqual(claims);
  });

  const withExponent = (e: string) => createPublicKey({ key: { ...jwk(rsa.publicKey), e } as never, format: "jwk" });
  it("an RSA exponent of 1 is refused in a CryptoKey too: anybody could sign", async () => {
    const params = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
    const imported = (e: string) =>
      webcrypto.subtle.importKey("jwk", { ...jwk(rsa.publicKey), e }, params, true, ["verify"]);
    for (const e of ["AQ", "Ag"]) {
      const publicKey = await imported(e);
      expect(() => createProxyTokenVerifier({ ...OPTIONS, keys: [{ algorithm: "RS256", publicKey }] })).toThrow(
        /odd exponent above 1/,
      );
    }
    for (const e of ["Aw", "AQAB", "AAEAAQ"]) {
      for (const publicKey of [await imported(e), withExponent(e), { ...jwk(rsa.publicKey), e }])
        expect(createProxyTokenVerifier({ ...OPTIONS, keys: [{ algorithm: "RS256", publicKey }] })).toBeTypeOf(
          "function",
        );
    }
  });

  const small = generateKeyPairSync("rsa", { modulusLength: 1024 });
  const wide = generateKeyPairSync("ec", { namedCurve: "P-384" });
  const rs = { algorithm: "RS256", publicKey: rsa.publicKey } as const;
  const wrong: [what: string, keys: unknown, message: RegExp][] = [
    ["A101: a secret of 4 bytes", [{ secret: "abcd" }], /keys\[0\]\.secret must have at least 32 bytes/],
    ["a secret of 32 equal letters", [{ secret: "x".repeat(32) }], /keys\[0\]\.secret must be random/],
    ["a secret of few different bytes", [{ secret: new Uint8Array(64).map((_, i) => i % 7) }], /different bytes/],
    ["A101: an empty secret", [{ secret: "" }], /at least 32 bytes/],
    ["A101: no secret", [{ secret: undefined }], /keys\[0\]\.secret must be a string or a Uint8Array/],
    ["A101: RSA 1024", [{ ...rs, publicKey: small.publicKey }], /keys\[0\]\.publicKey must have at least 2048 bits/],
    ["A101: RSA 1024 as JWK", [{ ...rs, publicKey: jwk(small.publicKey) }], /at least 2048 bits/],
    ...[
      { kty: "EC", crv: "P-256", x: "AAAA", y: "AAAA" },
      { ...jwk(ec.publicKey), x: `${String(jwk(ec.publicKey)["x"])}A` },
      { ...jwk(ec.publicKey), y: String(jwk(ec.publicKey)["y"]).slice(1) },
      { ...jwk(ec.publicKey), y: `${String(jwk(ec.publicKey)["y"]).slice(1)}=` },
    ].map((publicKey): [string, unknown, RegExp] => [
      "a coordinate of P-256 that is not 32 bytes",
      [{ algorithm: "ES256", publicKey }],
      /of ES256/,
    ]),
    [
      "a point of Ed25519 that is not 32 bytes",
      [{ algorithm: "EdDSA", publicKey: { ...jwk(ed.publicKey), x: "AAAA" } }],
      /of EdDSA/,
    ],
    [
      "RSA as JWK, a modulus that is no base64url",
      [{ ...rs, publicKey: { ...jwk(rsa.publicKey), n: "A".repeat(345) } }],
      /of RS256/,
    ],
    ...["AQ", "AAAB", "AA", "Ag", "AQAA"].flatMap((e): [string, unknown, RegExp][] => [
      [
        `RSA as JWK with exponent ${e}`,
        [{ ...rs, publicKey: { ...jwk(rsa.publicKey), e } }],
        /keys\[0\]\.publicKey must have an odd exponent/,
      ],
      [`RSA as KeyObject with exponent ${e}`, [{ ...rs, publicKey: withExponent(e) }], /odd exponent above 1/],
    ]),
    [
      "RSA 1024 that signs",
      [{ ...rs, privateKey: jwk(small.privateKey) }],
      /keys\[0\]\.privateKey must have at least 2048 bits/,
    ],
    [
      "RSA 1024 as JWK with leading zeros",
      [{ ...rs, publicKey: { ...jwk(small.publicKey), n: `${"A".repeat(200)}${String(jwk(small.publicKey)["n"])}` } }],
      /2048/,
    ],
    ["a secret of 31 bytes", [{ secret: new Uint8Array(31) }], /at least 32 bytes/],
    ["a second secret too short", [{ secret: SECRET }, { secret: "x" }], /keys\[1\]\.secret/],
    ["no keys", [], /options\.proxyTokens\.keys must be an array of 1 to 16 keys/],
    ["keys no list", { secret: SECRET }, /must be an array/],
    ["too many keys", Array.from({ length: 17 }, () => ({ secret: SECRET })), /1 to 16/],
    ["a key null", [null], /keys\[0\] must be an object/],
    ["an unknown algorithm", [{ algorithm: "HS256", publicKey: rsa.publicKey }], /keys\[0\]\.algorithm must be one of/],
    ["none", [{ algorithm: "none", publicKey: rsa.publicKey }], /algorithm must be one of/],
    ["secret and public key", [{ ...rs, secret: SECRET }], /either a secret or a publicKey/],
    ["a private key as public", [{ ...rs, publicKey: rsa.privateKey }], /must be a public key/],
    ["a private JWK as public", [{ ...rs, publicKey: jwk(rsa.privateKey) }], /must be a public key/],
    ["a public key as private", [{ ...rs, privateKey: rsa.publicKey }], /keys\[0\]\.privateKey must be a private key/],
    ["a key of another algorithm", [{ ...rs, algorithm: "ES256" }], /must be a key of ES256/],
    ["another curve", [{ algorithm: "ES256", publicKey: wide.publicKey }], /must be a key of ES256/],
    ["another curve as JWK", [{ algorithm: "ES256", publicKey: jwk(wide.publicKey) }], /must be a key of ES256/],
    [
      "a JWK for something else",
      [{ ...rs, publicKey: { ...jwk(rsa.publicKey), use: "enc" } }],
      /must be a key of RS256/,
    ],
    ["a JWK of another alg", [{ ...rs, publicKey: { ...jwk(rsa.publicKey), alg: "PS256" } }], /must be a key of RS256/],
    ["a JWK that lacks e", [{ ...rs, publicKey: { ...jwk(rsa.publicKey), e: undefined } }], /must be a key of RS256/],
    ["PEM text", [{ ...rs, publicKey: "-----BEGIN PUBLIC KEY-----" }], /must be a JWK, a CryptoKey or a KeyObject/],
    ["an empty object", [{ ...rs, publicKey: {} }], /must be a key of RS256/],
  ];
  it.each(wrong)("%s throws when the verifier is made, and tells no secret", (_what, keys, message) => {
    const make = () => createProxyTokenVerifier({ ...OPTIONS, keys: keys as never });
    expect(make).toThrow(message);
    expect(make).not.toThrow(/abcd|0123456789/);
  });

  it("a CryptoKey of another hash, or that may not verify", async () => {
    const spki = createPublicKey(rsa.publicKey.export({ type: "spki", format: "pem" })).export({
      type: "spki",
      format: "der",
    });
    const name = "RSASSA-PKCS1-v1_5";
    const sha512 = await webcrypto.subtle.importKey("spki", spki, { name, hash: "SHA-512" }, true, ["verify"]);
    const useless = await webcrypto.subtle.importKey("spki", spki, { name, hash: "SHA-256" }, true, []);
    for (const publicKey of [sha512, useless]) {
      expect(() => createProxyTokenVerifier({ ...OPTIONS, keys: [{ algorithm: "RS256", publicKey }] })).toThrow(
        /must be a key of RS256/,
      );
    }
  });

  const options: [options: object, message: RegExp][] = [
    [{ issuer: "" }, /options\.proxyTokens\.issuer/],
    [{ audience: 1 }, /options\.proxyTokens\.audience/],
    [{ audience: undefined }, /options\.proxyTokens\.audience must be given/],
    [{ workspaceClaim: "sub" }, /workspaceClaim must not be a claim of another meaning/],
    [{ workspaceClaim: "a b" }, /options\.proxyTokens\.workspaceClaim/],
    [{ algorithms: ["none"] }, /options\.proxyTokens\.algorithms is not an option/],
  ];
  it.each(options)("%j throws", (more, message) => {
    expect(() => createProxyTokenVerifier({ ...OPTIONS, ...more })).toThrow(message);
  });
});

describe("signProxyToken", () => {
  const claims = { subject: "user_1", workspaceId: "ws_1", permissions: ["api.*.read_api"] };
  const sign = (over: object = {}, more: object = {}) =>
    signProxyToken({ ...claims, ...over }, { ...OPTIONS, clock: () => NOON + 999, ...more });

  it("what it signs holds for its lifetime, one minute unless said otherwise, at most five", async () => {
    const text = await sign();
    expect(await holds(text, OPTIONS, NOON + 59_999)).toBe(true);
    expect(await holds(text, OPTIONS, NOON + 60_000)).toBe(false);
    expect(await holds(await sign({}, { lifetime: 300_000 }), OPTIONS, NOON + 299_999)).toBe(true);
    for (const lifetime of [300_001, 999, 0, -1, 1.5, NaN])
      await expect(sign({}, { lifetime })).rejects.toThrow(/options\.lifetime/);
  });

  it("what would not hold is not signed", async () => {
    for (const over of [
      { subject: "" },
      { workspaceId: "a:b" },
      { workspaceId: undefined },
      { permissions: "x" },
      { permissions: [1] },
    ]) {
      await expect(sign(over)).rejects.toThrow(TypeError);
    }
    await expect(sign({ permissions: Array.from({ length: 900 }, () => "api.*.read_api") })).rejects.toThrow(/8192/);
  });

  it("a first key without a private half cannot sign", async () => {
    const { publicKey } = generateKeyPairSync("ed25519");
    await expect(sign({}, { keys: [{ algorithm: "EdDSA", publicKey }, { secret: SECRET }] })).rejects.toThrow(
      /options\.keys\[0\] must have a privateKey/,
    );
    await expect(sign({}, { keys: [{ secret: "short" }] })).rejects.toThrow(/options\.keys\[0\]\.secret/);
  });
});

describe("isTokenShaped", () => {
  it("three parts, empty ones too", () => {
    for (const text of ["a.b.c", "..", "a..c"]) expect(isTokenShaped(text)).toBe(true);
    for (const text of ["", "a", "a.b", "a.b.c.d", "a.b.c.d.e"]) expect(isTokenShaped(text)).toBe(false);
  });
});

describe("hasRepeatedName", () => {
  it("a name twice in one object, at any depth, however written", () => {
    for (const json of [
      '{"a":1,"a":2}',
      '{"a":1 , "\\u0061" : 2}',
      '[{"b":{"a":1,"c":[{}],"a":2}}]',
      '{"":1,"":2}',
      '{"a\\"b":1,"a\\"b":2}',
      '{"__proto__":1,"__proto__":2}',
    ]) {
      expect(hasRepeatedName(json), json).toBe(true);
    }
  });

  it("never for what JSON.stringify wrote, always for a property written twice (property)", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(hasRepeatedName(JSON.stringify(value))).toBe(false);
      }),
    );
    fc.assert(
      fc.property(fc.string(), fc.jsonValue(), fc.jsonValue(), (name, first, second) => {
        const part = (value: unknown) => `${JSON.stringify(name)}:${JSON.stringify(value)}`;
        expect(hasRepeatedName(`[1,{${part(first)},${part(second)}}]`)).toBe(true);
      }),
    );
  });
});
