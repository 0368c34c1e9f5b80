/**
 * Says where an answer or an error departs from the specification. Contract 2.2, 2.4, rulings A5, A6, hostile input
 * A193.
 */
import type { KeystileError } from "../src/contracts/errors.js";

const CODES = [
  "VALID",
  "NOT_FOUND",
  "FORBIDDEN",
  "INSUFFICIENT_PERMISSIONS",
  "USAGE_EXCEEDED",
  "RATE_LIMITED",
  "DISABLED",
  "EXPIRED",
];

type Judge = (value: unknown) => boolean;
interface Field {
  readonly is: Judge;
  readonly required?: true;
}
type Shape = Readonly<Record<string, Field>>;

const text: Judge = (value) => typeof value === "string";
const flag: Judge = (value) => typeof value === "boolean";
const whole =
  (min: number, max = Number.MAX_SAFE_INTEGER): Judge =>
  (value) =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max && !Object.is(value, -0);
const named =
  (min: number, max: number): Judge =>
  (value) =>
    typeof value === "string" && [...value].length >= min && [...value].length <= max;
const object: Judge = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const limitId: Judge = (value) => named(8, 255)(value) && /^rl_[a-zA-Z0-9_]+$/.test(value as string);
/** Sorted, each once (ruling A5). */
const names: Judge = (value) =>
  Array.isArray(value) && value.every(text) && value.every((name, i) => i === 0 || (value as string[])[i - 1]! < name);

const LIMIT: Shape = {
  id: { is: limitId, required: true },
  name: { is: named(1, 128), required: true },
  limit: { is: whole(1, 1_000_000), required: true },
  duration: { is: whole(1_000, 2_592_000_000), required: true },
  autoApply: { is: flag, required: true },
};
const RESULT: Shape = {
  ...LIMIT,
  exceeded: { is: flag, required: true },
  reset: { is: whole(1_000, 2_592_000_000), required: true },
  remaining: { is: whole(0, 1_000_000), required: true },
};
const IDENTITY: Shape = {
  id: { is: text, required: true },
  externalId: { is: text, required: true },
  meta: { is: object },
  ratelimits: {
    is: (value) => Array.isArray(value) && value.every((limit) => faultsOf("", limit, LIMIT).length === 0),
  },
};
const ANSWER: Shape = {
  valid: { is: flag, required: true },
  code: { is: (value) => CODES.includes(value as string), required: true },
  keyId: { is: text },
  name: { is: text },
  meta: { is: object },
  expires: { is: whole(0) },
  credits: { is: whole(0) },
  enabled: { is: flag },
  permissions: { is: names },
  roles: { is: names },
  identity: { is: (value) => faultsOf("", value, IDENTITY).length === 0 },
  ratelimits: {
    is: (value) =>
      Array.isArray(value) && value.length > 0 && value.every((result) => faultsOf("", result, RESULT).length === 0),
  },
};

function faultsOf(where: string, value: unknown, shape: Shape): string[] {
  if (!object(value)) return [`${where} is no object`];
  const own = value as Record<string, unknown>;
  const faults = Object.keys(own).flatMap((name) => {
    const field = Object.hasOwn(shape, name) ? shape[name] : undefined;
    if (field === undefined) return [`${where}${name} is not in the schema`];
    return field.is(own[name]) ? [] : [`${where}${name} does not fit: ${JSON.stringify(own[name])}`];
  });
  const missing = Object.keys(shape).filter((name) => shape[name]?.required === true && !Object.hasOwn(own, name));
  return [...faults, ...missing.map((name) => `${where}${name} is missing`)];
}

/** Everything in an answer of `verify` that the specification does not allow; none: it conforms. */
export function faultsOfAnswer(answer: object, asked: { readonly permissions?: unknown } = {}): string[] {
  const faults = faultsOf("", answer, ANSWER);
  const { valid, code } = answer as { valid?: unknown; code?: string };
  const has = (name: string) => Object.hasOwn(answer, name);
  const claim = (holds: boolean, what: string) => void (holds || faults.push(`${code ?? ""}: ${what}`));
  claim(valid === (code === "VALID"), "valid exactly with VALID");
  claim(has("keyId") === (code !== "NOT_FOUND"), "keyId unless NOT_FOUND");
  claim(has("enabled") === (code !== "NOT_FOUND"), "enabled unless NOT_FOUND");
  claim(code !== "NOT_FOUND" || Object.keys(answer).length === 2, "NOT_FOUND has nothing but valid and code");
  const early = ["NOT_FOUND", "DISABLED", "EXPIRED", "FORBIDDEN"].includes(code ?? "");
  const queried = asked.permissions !== undefined && !early;
  claim(has("roles") === queried, "roles exactly when the query was evaluated");
  claim(has("permissions") === (queried || code === "FORBIDDEN"), "permissions when evaluated, and with FORBIDDEN");
  claim(
    !has("ratelimits") || !(early || code === "INSUFFICIENT_PERMISSIONS"),
    "ratelimits only once limits were checked",
  );
  const results = (answer as { ratelimits?: { exceeded: boolean }[] }).ratelimits ?? [];
  claim(
    results.some(({ exceeded }) => exceeded) === (code === "RATE_LIMITED"),
    "a limit is exceeded exactly with RATE_LIMITED",
  );
  return faults;
}

const LOCATION = /^(body|path|query)(\.[A-Za-z_$][\w$]*|\[\d+\])*$/;

/** Everything in an error that contract 2.4 does not allow. */
export function faultsOfError({ title, detail, status, type, errors }: KeystileError): string[] {
  const faults: string[] = [];
  for (const [name, value] of Object.entries({ title, detail, type }))
    if (!text(value) || value === "") faults.push(`${name} is no text`);
  if (!whole(400, 599)(status)) faults.push(`status ${status}`);
  if ((status === 400) !== errors.length > 0) faults.push(`status ${status} with ${errors.length} problems`);
  for (const problem of errors) {
    faults.push(
      ...faultsOf("", problem, {
        location: { is: text, required: true },
        message: { is: text, required: true },
        fix: { is: text },
      }),
    );
    if (!LOCATION.test(problem.location)) faults.push(`location ${problem.location}`);
  }
  return faults;
}
