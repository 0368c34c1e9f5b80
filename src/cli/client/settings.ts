/** Server URL and root key, from flags, environment and config file, in this order (contract 4.2, 5). */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { API_URL_VARIABLE, ROOT_KEY_VARIABLE } from "../io/environment.js";
import { usage } from "../io/failures.js";
import { parseJson, readSecret } from "../io/input.js";
import type { Io } from "../io/io.js";
import { warn } from "../io/text.js";
import { isObject } from "../../lib/copy-json.js";

/** Where `keystile serve` listens by default. */
export const DEFAULT_PORT = 5397;
export const DEFAULT_HOST = "127.0.0.1";
export const DEFAULT_CONFIG = ".keystile.json";

/** The global flags of contract 4.2 as given: `rootKey` and `body` may be `@file` or `-`. */
export interface GlobalFlags {
  readonly rootKey?: string;
  readonly apiUrl?: string;
  readonly config?: string;
  readonly output?: "json";
  readonly body?: string;
}

export interface Settings {
  /** Without a trailing slash. */
  readonly apiUrl: string;
  /** Absent if none is needed, or none was found. */
  readonly rootKey?: string;
}

/**
 * Reads the settings, including the file or stdin that `--root-key` names.
 * @throws failure 2: the config file was named and does not exist, is not JSON or has other settings; the URL or root
 * key is invalid
 */
export async function readSettings(io: Io, flags: GlobalFlags): Promise<Settings> {
  const file = await readConfig(io, flags.config);
  const variable = flags.apiUrl === undefined ? io.env[API_URL_VARIABLE] : undefined;
  const address = variable ?? flags.apiUrl ?? file.apiUrl ?? `http://${DEFAULT_HOST}:${DEFAULT_PORT}`;
  const apiUrl = readUrl(address, variable === undefined ? "--api-url" : API_URL_VARIABLE);
  // An empty variable counts as unset, as in shells.
  const given = flags.rootKey === undefined ? undefined : await readSecret(io, "--root-key", flags.rootKey);
  const rootKey = given ?? (io.env[ROOT_KEY_VARIABLE] || undefined) ?? file.rootKey;
  if (rootKey === undefined) return { apiUrl };
  // Checked here, since the error of an invalid header would repeat the value.
  if (!/^[\x21-\x7e]{1,8192}$/.test(rootKey))
    throw usage("the root key must be 1 to 8192 printable ASCII characters without spaces");
  if (isOpenNetwork(apiUrl)) {
    await warn(io, "the root key is sent over plain HTTP; give an https address");
  }
  return { apiUrl, rootKey };
}

type Config = { readonly apiUrl?: string; readonly rootKey?: string };
const NAMES = ["apiUrl", "rootKey"];

async function readConfig(io: Io, given: string | undefined): Promise<Config> {
  const path = given ?? join(io.home, DEFAULT_CONFIG);
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" && given === undefined) return {};
    throw usage(
      `--config: ${path}: ${code === "ENOENT" ? "there is no such file" : `it cannot be read (${code ?? "unknown"})`}`,
    );
  }
  const config = parseJson(text, `config file ${path}`);
  if (!isObject(config)) throw usage(`config file ${path}: must be a JSON object`);
  for (const [name, value] of Object.entries(config)) {
    if (!NAMES.includes(name))
      throw usage(`config file ${path}: there is no such setting here; there are: ${NAMES.join(", ")}`);
    if (typeof value !== "string" || value === "")
      throw usage(`config file ${path}: ${name} must be a text that is not empty`);
  }
  const read = config as Config;
  if (read.rootKey !== undefined && ((await stat(path)).mode & 0o077) !== 0 && process.platform !== "win32") {
    await warn(io, `${path} holds a root key and others can read it; run: chmod 600 ${path}`);
  }
  return read;
}

function readUrl(text: string, name: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw usage(`${name}: must be an http or https address, such as http://${DEFAULT_HOST}:${DEFAULT_PORT}`);
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw usage(`${name}: must hold no user, password, query or fragment`);
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

function isOpenNetwork(apiUrl: string): boolean {
  const { protocol, hostname } = new URL(apiUrl);
  return protocol === "http:" && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}
