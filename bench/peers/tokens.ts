/**
 * The stateless alternative: signed tokens with the permissions in them. Nothing is looked up, so nothing can be
 * counted or taken back.
 */
import { webcrypto } from "node:crypto";
import { createSigner, createVerifier } from "fast-jwt";
import { jwtVerify } from "jose";
import { type Checks, type Contestant, type Gate, grantsOf, lettersOf } from "./contestant.js";

const CHECKS: Checks = {
  permissions: "this one query, as code, on what was signed",
  limit: "none",
  credits: "none",
  revocation: "none until the token expires",
};

const SECRET = lettersOf(-1, 32);
const FORGED = lettersOf(-2, 32);
const LIFETIME_MS = 3_600_000;

interface Claims {
  readonly permissions?: unknown;
}

function makeTokens(keys: number): string[] {
  const options = { algorithm: "HS256", expiresIn: LIFETIME_MS } as const;
  const [sign, forge] = [createSigner({ ...options, key: SECRET }), createSigner({ ...options, key: FORGED })];
  return Array.from({ length: keys + 2 }, (_, n) =>
    (n > keys ? forge : sign)({ sub: `key_${n}`, permissions: grantsOf(n, keys) }),
  );
}

function passes({ permissions }: Claims): boolean {
  if (!Array.isArray(permissions)) return false;
  return (
    permissions.includes("documents.read") &&
    (permissions.includes("billing.view") || permissions.includes("reports.export"))
  );
}

function fastJwt(name: string, cache: number | false): Contestant<Claims> {
  return {
    name,
    checks: CHECKS,
    async open(keys): Promise<Gate<Claims>> {
      const tokens = makeTokens(keys);
      const verify = createVerifier({ key: SECRET, algorithms: ["HS256"], cache });
      return {
        verify(n) {
          try {
            return verify(tokens[n]!);
          } catch {
            return {};
          }
        },
        passes,
        close: () => undefined,
      };
    },
  };
}

/** Every token judged anew. */
export const fastJwtAnew = fastJwt("fast-jwt, HS256", false);
/** Tokens that were judged before are remembered by their hash. */
export const fastJwtCached = fastJwt("fast-jwt, HS256, its cache on", 10_000);

/** jose, on the platform's own cryptography. */
export const joseHs256: Contestant<Claims> = {
  name: "jose, HS256",
  checks: CHECKS,
  async open(keys): Promise<Gate<Claims>> {
    const tokens = makeTokens(keys);
    const key = await webcrypto.subtle.importKey("raw", Buffer.from(SECRET), { name: "HMAC", hash: "SHA-256" }, false, [
      "verify",
    ]);
    return {
      async verify(n): Promise<Claims> {
        try {
          const { payload } = await jwtVerify<Claims>(tokens[n]!, key, { algorithms: ["HS256"] });
          return payload;
        } catch {
          return {};
        }
      },
      passes,
      close: () => undefined,
    };
  },
};
