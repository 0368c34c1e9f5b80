/** What a verification would return now: each check in its order, the first failure in bold. */
import { badRequest, isKeystileError, type KeystileError } from "../../contracts/errors.js";
import type { Refusal } from "../../contracts/outcomes.js";
import type { VerifyKeyRatelimitData } from "../../contracts/types.js";
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { isAddressOrRange } from "../../lib/ip-ranges.js";
import type { Explanation } from "../../verify/explain.js";
import type { ExplainedCheck } from "../../verify/explained-check.js";
import { duration, number, time, window } from "../../view/format.js";
import { askForm, type Field } from "../../view/form.js";
import { html, type Html, join, literal, type Part } from "../../view/html.js";
import { badge, chips, code, muted, name, section, table } from "../../view/parts.js";
import type { View } from "../view/view.js";
import { toNumber } from "./key-fields.js";
import { deletion, toKey } from "./key-parts.js";

/** What is explained: what a call would get, or what is wrong with what was asked of it. */
export type Found = Explanation | KeystileError;

/** What is asked about a key. */
export interface Asked {
  readonly query: string;
  readonly cost: string;
  readonly address: string;
  /** Whether it is what the last refused call asked for. */
  readonly isLast: boolean;
}

/**
 * What is asked about a key: what the URL names, without that what the last refused call asked for; and without an
 * address there, one that the key may be used from.
 */
export function askedOf({ query: url }: View, { ipAllowlist = [] }: KeyResponseData, last?: Refusal): Asked {
  const isLast = last !== undefined && !["query", "cost", "address"].some((name) => url.has(name));
  const given = (name: string, of: string | undefined): string | undefined =>
    url.get(name) ?? (isLast ? of : undefined);
  return {
    query: given("query", last?.permissions) ?? "",
    cost: given("cost", last?.cost === 1 ? "" : String(last?.cost)) ?? "",
    address: given("address", last?.address) ?? ipAllowlist[0]?.replace(/\/.*$/, "") ?? "",
    isLast,
  };
}

/** What a call would get. */
export async function explainAsked(view: View, key: KeyResponseData, asked = askedOf(view, key)): Promise<Found> {
  const { query: permissions, cost, address: clientAddress } = asked;
  if (clientAddress !== "" && !isAddressOrRange(clientAddress))
    return badRequest([{ location: "clientAddress", message: `"${clientAddress}" is not an IP address.` }]);
  const request = {
    ...(permissions !== "" && { permissions }),
    ...(cost !== "" && { credits: { cost: toNumber(cost) } }),
    ...(clientAddress !== "" && { clientAddress }),
  };
  return view.ask("keys.explainKey", { keyId: key.keyId, ...request }).catch(asRefused);
}

/** What was asked, and the verdict on it. */
export function verdict(view: View, key: KeyResponseData, found: Found, asked: Asked): Html {
  const { query, cost, address, isLast } = asked;
  const fields: readonly Field[] = [
    { name: "query", label: "Permission query", placeholder: "documents.read AND exports.run", value: query },
    { name: "cost", label: "Cost", placeholder: "1", value: cost, type: "number" },
    { name: "address", label: "Client address", placeholder: "203.0.113.7", value: address },
  ];
  const shown = isKeystileError(found) ? mistake(found, query) : explained(view, found, query === "");
  const form = askForm(view, "Would a call pass now?", fields, "Explain", toKey(key.keyId));
  const hint = isLast && html`<p class="ks-hint">Filled in with what the last refused call asked for.</p>`;
  return section("Would a call pass now?", html`${form}<div id="ks-found" aria-live="polite">${hint}${shown}</div>`);
}

/** How far limits are used, by their ids, as far as a call checks them and the console knows it. */
export function usedLimits({ seesLimits }: View, found: Found): ReadonlyMap<string, VerifyKeyRatelimitData> {
  if (!seesLimits || isKeystileError(found)) return new Map();
  const limits = found.checks.flatMap((check) => (check.code === "RATE_LIMITED" ? check.limits : []));
  return new Map(limits.map((limit) => [limit.id, limit]));
}

/** What is wrong with what was asked; anything else is a fault of the page. */
function asRefused(error: unknown): KeystileError {
  if (isKeystileError(error) && error.status === 400) return error;
  throw error;
}

function explained(view: View, { passes, refusal, checks, ...found }: Explanation, isOfAny: boolean): Html {
  const first = checks.findIndex((check) => !check.passes);
  const rows = checks.map((check, i): Part[] => {
    const [title, found] = finding(check, view);
    const result = isUnknown(check, view)
      ? badge("plain", "not known")
      : resultOf(check.passes, first >= 0 && i > first);
    return i === first
      ? [html`<strong>${title}</strong>`, result, html`<strong>${found}</strong>`]
      : [title, result, found];
  });
  const verdict = passes ? badge("good", "VALID") : badge("bad", refusal ?? "NOT_FOUND");
  const unless = checks.some((check) => isUnknown(check, view)) ? ", unless a rate limit refuses it" : "";
  const of = isOfAny ? " It asks for no permission." : "";
  const about = passes ? `This call would pass${unless}. Nothing was taken.${of}` : "This call would be refused.";
  return html`<p class="ks-verdict">${verdict} ${muted(about)}</p>
    ${table("Checks in order", ["Check", "Result", "What it found"], rows, notFound(found, view.now))}`;
}

function notFound(found: Partial<Explanation>, now: number): Part {
  if (found.deleted !== true) return "verify does not find this key.";
  return html`The key was deleted${found.deletedAt === undefined ? ", or its API was" : html` ${deletion(found, now)}`}.`;
}

/** Limits that others count. */
const isUnknown = (check: ExplainedCheck, { seesLimits }: View): boolean =>
  check.code === "RATE_LIMITED" && check.limits.length > 0 && !seesLimits;

/** Checks after the first failure do not run; told is what they would find. */
function resultOf(passes: boolean, isAfter: boolean): Html {
  if (isAfter) return badge("plain", passes ? "would pass" : "would fail");
  return passes ? badge("good", "passes") : badge("bad", "fails");
}

type Check<Code extends ExplainedCheck["code"]> = Extract<ExplainedCheck, { readonly code: Code }>;

/** What a check looks at, and what it found. */
function finding(check: ExplainedCheck, { now, seesLimits }: View): readonly [title: string, found: Part] {
  switch (check.code) {
    case "DISABLED":
      return ["Enabled", check.passes ? "The key is enabled." : "The key is disabled."];
    case "EXPIRED":
      return ["Not expired", expiry(check, now)];
    case "FORBIDDEN": {
      const from = check.addressAllowed ? "It may be used from there." : "The allow-lists do not have this address.";
      const parents = check.parentDisabled ? "Its API or workspace is disabled." : from;
      return ["API, owner and address", check.ownerDisabled ? "Its owner is disabled." : parents];
    }
    case "INSUFFICIENT_PERMISSIONS":
      return ["Permissions", names(check)];
    case "RATE_LIMITED":
      return ["Rate limits", limits(check, seesLimits)];
    case "USAGE_EXCEEDED":
      return ["Credits", credits(check)];
  }
}

/** What ends first. */
function expiry({ passes, expires = Infinity, ownerExpires = Infinity }: Check<"EXPIRED">, now: number): Part {
  const first = Math.min(expires, ownerExpires);
  if (first === Infinity) return "It never expires.";
  const whose = ownerExpires < expires ? "Its owner" : "It";
  return html`${whose} ${passes ? "expires" : "expired"} ${time(first, now)}.`;
}

function names({ has, missing }: Check<"INSUFFICIENT_PERMISSIONS">): Part {
  if (has.length + missing.length === 0) return "No permission was asked for.";
  const held = has.map((permission) => html`${code(permission)} ${badge("good", "present")}`);
  return chips([...held, ...missing.map((permission) => html`${code(permission)} ${badge("bad", "missing")}`)]);
}

function limits({ limits: all, retryAfter, degraded }: Check<"RATE_LIMITED">, seesLimits: boolean): Part {
  if (all.length === 0) return "No limit applies.";
  const names = all.map(({ name: called }) => name(called));
  if (!seesLimits) return html`Not available in this console: ${join(names, ", ")}`;
  const shown = all.map(({ name: called, cost, remaining, limit, duration: length }) => {
    const left = `${number(remaining)} of ${number(limit)} per ${window(length)} left`;
    return html`<div>${name(called)}: ${left}, takes ${number(cost)}</div>`;
  });
  return html`${shown}${retryAfter !== undefined && html`<div>Could pass in ${duration(retryAfter)}.</div>`}
    ${degraded && html`<div>The limiter does not answer; its fallback did.</div>`}`;
}

function credits({ creditsFrom, cost, remaining, accounts = [] }: Check<"USAGE_EXCEEDED">): Part {
  if (remaining === undefined) return "Its credits are unlimited.";
  if (creditsFrom !== "both")
    return `${number(remaining)} credits of the ${creditsFrom === "identity" ? "owner" : "key"} left, takes ${number(cost)}.`;
  const leftOf = (whose: string): string =>
    number(accounts.reduce((sum, { owner, remaining: left }) => sum + (owner === whose ? (left ?? 0) : 0), 0));
  return `${leftOf("key")} credits of the key and ${leftOf("identity")} of the owner left, takes ${number(cost)} from both.`;
}

/** What is wrong with a request; of a query, where in it. */
export function mistake({ errors, detail }: KeystileError, query: string): Html {
  const lines = errors.map(({ message, fix }) => (fix === undefined ? message : `${message}: ${fix}`));
  const at = errors.find(({ position }) => position !== undefined)?.position;
  return html`<div class="ks-alert ks-bad" role="alert">${join(lines.length === 0 ? [detail] : lines, html`<br>`)}</div>
    ${at !== undefined && pointAt(query, at)}`;
}

/** The query with a caret below the place; all before it is ASCII. */
function pointAt(query: string, position: number): Html {
  const caret = literal(`\n${" ".repeat(position)}^`);
  const shown = html`<bdi>${query.replace(/\s/g, " ")}</bdi>${caret}`;
  return html`<pre class="ks-pre" tabindex="0" aria-label="The query, with the place of the mistake">${shown}</pre>`;
}
