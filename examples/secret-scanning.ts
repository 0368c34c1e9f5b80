/**
 * Keys that were pushed to GitHub are disabled: the endpoint of its secret scanning partner program. `GITHUB_KEYS_URL`
 * is where GitHub's public keys are.
 */
import { verify } from "node:crypto";
import { crc32 } from "node:zlib";
import { serve } from "@hono/node-server";
import { isKeystileError } from "keystile";
import { keyring, tell } from "./keys.js";

/** What a key looks like that was made with the prefix `acme`, and 16 bytes, as they are unless you say otherwise. */
export const PATTERN = /acme_[1-9A-HJ-NP-Za-km-z]{28}/;

const BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/** Whether a text ends in its own checksum, CRC-32 in six digits of Base58: one other text in four billion does. */
function hasChecksum(text: string): boolean {
  let digits = "";
  for (let rest = crc32(text.slice(0, -6)), i = 0; i < 6; i++, rest = Math.floor(rest / 58))
    digits = BASE58.charAt(rest % 58) + digits;
  return text.endsWith(digits);
}

const KEYS_URL = process.env["GITHUB_KEYS_URL"] ?? "https://api.github.com/meta/public_keys/secret_scanning";
let known = { at: 0, keys: new Map<string | null, string>() };

/** Whether GitHub has signed the body. */
async function isFromGitHub(headers: Headers, body: string): Promise<boolean> {
  const id = headers.get("github-public-key-identifier");
  // An id that is not known is looked up, once a minute at most.
  if (!known.keys.has(id) && Date.now() - known.at > 60_000) {
    const { public_keys: list } = (await (await fetch(KEYS_URL)).json()) as {
      public_keys: { key_identifier: string; key: string }[];
    };
    known = { at: Date.now(), keys: new Map(list.map(({ key_identifier, key }) => [key_identifier, key])) };
  }
  const key = known.keys.get(id);
  const signature = Buffer.from(headers.get("github-public-key-signature") ?? "", "base64");
  return key !== undefined && verify("sha256", Buffer.from(body), key, signature);
}

/** Disables a key of ours. @returns whether it is one */
async function disable(token: string): Promise<boolean> {
  if (!hasChecksum(token)) return false;
  try {
    const { keyId } = await keyring.whoami({ key: token });
    await keyring.updateKey({ keyId, enabled: false }); // and write to its owner
    return true;
  } catch (error) {
    if (isKeystileError(error) && error.code === "NOT_FOUND") return false;
    throw error;
  }
}

export async function leaked(request: Request): Promise<Response> {
  const body = await request.text();
  if (!(await isFromGitHub(request.headers, body))) return new Response(null, { status: 401 });
  const found = JSON.parse(body) as { token: string; type: string; url: string }[];
  const labels = [];
  for (const { token, type } of found) {
    const label = (await disable(token)) ? "true_positive" : "false_positive";
    labels.push({ token_raw: token, token_type: type, label });
  }
  return Response.json(labels);
}

serve({ fetch: leaked, port: Number(process.env["PORT"] ?? 0), hostname: "127.0.0.1" }, ({ port }) =>
  tell(`http://127.0.0.1:${port}/leaked`),
);
