/**
 * The quickstart's input: 10,000 keys of two former providers, as NDJSON lines in the migration form (spec §2.3). The
 * same on every run.
 */
import { createHash } from "node:crypto";
import { hashLongToken } from "prefixed-api-key";
import type { V2KeysMigrateKeyData } from "../../src/contracts/types.js";
import { type Kind, KINDS } from "./kinds.js";

/** A key as its owner holds it, and as the file shows it: the file never holds the key itself. */
export interface SeedKey {
  readonly plaintext: string;
  readonly line: V2KeysMigrateKeyData;
  /** Absent: a key of the story, which the workload leaves alone. */
  readonly kind?: Kind;
}

/** What a former provider hands over: one file, one migration. */
export interface SeedFile {
  readonly migrationId: string;
  readonly algorithm: string;
  /** Lines of the file in order, with those that must fail. */
  readonly lines: readonly V2KeysMigrateKeyData[];
  readonly keys: readonly SeedKey[];
  /** How many lines must fail, by reason. */
  readonly failures: Readonly<Record<string, number>>;
}

export const TOTAL = 10_000;
const SEED = 20_260_101;
/** Lines that must fail, in each file. */
const DUPLICATES = 12;
const UNKNOWN_ROLES = 6;
const NO_HASHES = 2;
const FAULTS = DUPLICATES + UNKNOWN_ROLES + NO_HASHES;

/** The key whose whole answer and balance are shown. */
export const SHOWN = "Ada's notebook";
/** Deleted at the end of the first run. */
export const TO_DELETE = "Grace's old laptop";
/** Switched off at the end of the first run. */
export const TO_DISABLE = "Linus's lost phone";

const STORY: readonly Omit<V2KeysMigrateKeyData, "hash">[] = [
  {
    name: SHOWN,
    externalId: "analytical_engines",
    meta: { plan: "scale", region: "eu", tags: ["notes", "números", "数"], contact: { team: "research" } },
    roles: ["editor"],
    permissions: ["billing.view"],
    expires: Date.UTC(2089, 11, 10),
    credits: { remaining: 1_000_000 },
    ratelimits: [{ name: "requests", limit: 600, duration: 60_000, autoApply: true }],
  },
  { name: TO_DELETE, roles: ["viewer"] },
  { name: TO_DISABLE, roles: ["viewer"] },
];

/** Both files. About 50 ms. */
export function makeSeed(): readonly [prefixed: SeedFile, sha256: SeedFile] {
  const random = randomFrom(SEED);
  return [
    makeFile("mig_prefixed_api_key", "prefixed-api-key", 6_000, [], () => {
      // The form that the package makes: prefix, short token, long token. Its hash is the package's own.
      const [short, long] = [token(random, 8), token(random, 24)];
      return { plaintext: `acme_${short}_${long}`, hash: hashLongToken(long) };
    }),
    makeFile("mig_sha256", "sha256", TOTAL - 6_000, STORY, (n) => {
      const plaintext = `dk_live_${token(random, 32)}`;
      const encoding = ENCODINGS[n % ENCODINGS.length] ?? "hex";
      return { plaintext, hash: createHash("sha256").update(plaintext).digest(encoding) };
    }),
  ];
}

type Issue = (n: number) => { readonly plaintext: string; readonly hash: string };

function makeFile(
  migrationId: string,
  algorithm: string,
  count: number,
  story: readonly Omit<V2KeysMigrateKeyData, "hash">[],
  issue: Issue,
): SeedFile {
  const keys: SeedKey[] = [];
  for (let n = 0; n < count - FAULTS; n++) {
    const { plaintext, hash } = issue(n);
    const special = story[n];
    if (special) keys.push({ plaintext, line: { hash, ...special } });
    else {
      const kind = kindOf(n);
      keys.push({ plaintext, kind, line: { hash, ...ownerOf(n), ...kind.carries(n) } });
    }
  }
  const lines = keys.map((key) => key.line);
  // Mistakes as they happen: scattered over the file, a duplicate always after its original.
  for (let i = 0; i < DUPLICATES; i++)
    lines.splice(spot(i), 0, { hash: keys[i * 7]?.line.hash ?? "", name: "sent twice" });
  for (let i = 0; i < UNKNOWN_ROLES; i++)
    lines.splice(spot(i), 0, { hash: issue(i).hash, name: "unknown role", roles: ["no-such-role"] });
  for (let i = 0; i < NO_HASHES; i++)
    lines.splice(spot(i), 0, { hash: `no hash of ${algorithm}, ${i}`, name: "no hash" });
  return {
    migrationId,
    algorithm,
    lines,
    keys,
    failures: { ALREADY_EXISTS: DUPLICATES, UNKNOWN_ROLE: UNKNOWN_ROLES, INVALID_HASH: NO_HASHES },
  };
}

const ENCODINGS = ["hex", "base64", "base64url"] as const;
const spot = (i: number): number => 1_000 + i * 137;

function ownerOf(n: number): Omit<V2KeysMigrateKeyData, "hash"> {
  const owner = n % 5 === 0 ? {} : { externalId: `customer_${String(n % 2_500).padStart(4, "0")}` };
  return {
    name: `Key ${n} · ${NAMES[n % NAMES.length] ?? ""}`,
    ...owner,
    meta: { plan: PLANS[n % PLANS.length] ?? "free", seats: n % 40 },
  };
}

const NAMES = ["Zürich office", "東京", "São Paulo", "Kraków", "Nairobi", "Reykjavík", "build server", "mobile app"];
const PLANS = ["free", "team", "scale"];

/** Shares of 100, spread evenly. */
const BY_SHARE = KINDS.flatMap((kind) => Array.from({ length: kind.share }, () => kind));

function kindOf(n: number): Kind {
  const kind = BY_SHARE[(n * 37) % BY_SHARE.length];
  if (!kind || BY_SHARE.length !== 100) throw new Error("the shares of the kinds must add up to 100");
  return kind;
}

const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

function token(random: () => number, length: number): string {
  let text = "";
  while (text.length < length) text += BASE58.charAt(random() % BASE58.length);
  return text;
}

/** Unsigned 32-bit numbers that look random, always the same (mulberry32). For samples, never for real keys. */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let x = Math.imul(state ^ (state >>> 15), 1 | state);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return (x ^ (x >>> 14)) >>> 0;
  };
}
