/** How alerts leave the process: by a function of the program, or as Standard Webhooks. */
import type { Alert } from "../contracts/alerts.js";
import { type Check, checkOptions, isPlainObject, text } from "../lib/check-options.js";
import { createDeadline } from "../lib/guards/deadline.js";
import { hmacSha256 } from "../lib/hash.js";
import { LOOPBACK_HOSTS } from "../lib/loopback.js";

/** Where alerts are posted, signed as standardwebhooks.com says. Kept in memory alone. */
export interface AlertWebhook {
  /** An `https:` address, or an `http:` one of this machine, without user and password. Redirects are not followed. */
  readonly url: string;
  /** `whsec_` and 24 to 64 bytes in base64, which the receiver has too. */
  readonly secret: string;
}

const SECRET = /^whsec_(?:[A-Za-z0-9+/]{4}){8,21}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** A function, or a webhook. */
export const deliverOption: Check = (value, path) => {
  if (typeof value === "function") return;
  if (!isPlainObject(value)) throw new TypeError(`${path} must be a function, or { url, secret }`);
  const webhook = checkOptions(value as Partial<AlertWebhook>, { url: text, secret: text }, path);
  const url = URL.canParse(webhook.url ?? "") ? new URL(webhook.url as string) : undefined;
  const isSafe = url?.protocol === "https:" || (url?.protocol === "http:" && LOOPBACK_HOSTS.includes(url.hostname));
  if (!isSafe || url?.username !== "" || url.password !== "")
    throw new TypeError(`${path}.url must be an https address, without user and password`);
  if (!SECRET.test(webhook.secret ?? ""))
    throw new TypeError(`${path}.secret must be whsec_ and 24 to 64 bytes in base64`);
};

/** Delivers one alert, or rejects within the time. */
export type Send = (alert: Alert) => Promise<unknown>;

/** @param deliver checked @param timeout milliseconds for each */
export function createSend(deliver: ((alert: Alert) => unknown) | AlertWebhook, timeout: number): Send {
  const deadline = createDeadline(timeout);
  // Read once: what is changed in the object afterwards changes nothing.
  const post = typeof deliver === "function" ? undefined : postTo({ ...deliver }, timeout);
  const send = post ?? (async (alert: Alert) => requireOk(await (deliver as (alert: Alert) => unknown)(alert)));
  return (alert) => deadline(send(alert), () => new Error(`an alert was not delivered within ${timeout} ms`));
}

/** Of a function that returns what `fetch` gave it: a receiver that refused resolves, and the alert would be lost. */
function requireOk(result: unknown): void {
  if (result instanceof Response && !result.ok)
    throw new Error(`options.deliver returned a response with status ${result.status}`);
}

function postTo({ url, secret }: AlertWebhook, timeout: number): Send {
  const key = Uint8Array.from(atob(secret.slice("whsec_".length)), (character) => character.charCodeAt(0));
  return async ({ id, type, time, ...data }) => {
    const body = JSON.stringify({ type, timestamp: new Date(time).toISOString(), data });
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": `v1,${await hmacSha256(key, `${id}.${timestamp}.${body}`)}`,
      },
      body,
      redirect: "manual",
      signal: AbortSignal.timeout(timeout),
    });
    await response.body?.cancel();
    if (!response.ok) throw new Error(`the webhook returned ${response.status}`);
  };
}
