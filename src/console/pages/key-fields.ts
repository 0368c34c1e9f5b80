/** The fields of a key or an owner: as a form has them, and as requests have them. */
import type { ValidationProblem } from "../../contracts/errors.js";
import type { RatelimitResponse, Refill } from "../../contracts/types.js";
import type { KeyResponseData } from "../../keyring/schemas/responses.js";
import { fromField, number, toField } from "../../view/format.js";
import { html, type Part } from "../../view/html.js";
import { code } from "../../view/parts.js";
import { confirmField, type Field, type FormView, unconfirmed } from "../../view/form.js";

/** A field of a form, how a key or an owner fills it, and what its text asks for; `null` clears. */
interface EditField<T> {
  readonly field: Field;
  readonly read: (of: T) => string;
  readonly write: (text: string) => unknown;
}

/** Lines of a text that are not empty. */
export const toLines = (text: string | null): string[] =>
  (text ?? "")
    .split("\n")
    .map((one) => one.trim())
    .filter((one) => one !== "");
const fromLines = (all: readonly string[] = []): string => all.join("\n");
const orNull = (text: string): string | null => (text === "" ? null : text);

function editField<T>(field: Field, read: (of: T) => string, write: (text: string) => unknown = orNull): EditField<T> {
  return { field, read, write };
}

const lines = (name: string, label: string, hint: Part): Field => ({ name, label, hint, type: "lines" });

const LIMITS_HINT =
  "One a line: name, tokens/seconds, and auto if every verification checks it, such as requests 100/60 auto";

/** When something ends, and what its text asks for. */
export const EXPIRES: Field = {
  name: "expires",
  label: "Expires (UTC)",
  type: "datetime-local",
  hint: "Empty: never.",
};
export const readExpiry = (text: string): number | string | null =>
  text === "" ? null : orText(fromField(text), text);

const META: Field = lines("meta", "Metadata", html`A JSON object, such as ${code('{"plan": "pro"}')}.`);
/** What is no JSON goes on as it is, for the operation to refuse. */
function readMeta(text: string): unknown {
  if (text.trim() === "") return null;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Why something is changed, for the audit trail. */
export const REASON: Field = { name: "reason", label: "Reason", hint: "For people. It is kept in the audit trail." };
/** Empty: none. */
export const reasonOf = (sent: URLSearchParams): { readonly reason?: string } =>
  sent.get("reason") ? { reason: sent.get("reason") as string } : {};

/** What keys and owners have alike. */
type Shared = Pick<KeyResponseData, "expires" | "ratelimits" | "meta">;
const ofExpires = editField<Shared>(
  EXPIRES,
  ({ expires }) => (expires === undefined ? "" : toField(expires)),
  readExpiry,
);
const ofMeta = editField<Shared>(
  META,
  ({ meta }) => (meta === undefined ? "" : JSON.stringify(meta, null, 2)),
  readMeta,
);
const ofLimits = (label: string): EditField<Shared> =>
  editField(lines("ratelimits", label, LIMITS_HINT), ({ ratelimits }) => toLimitLines(ratelimits), readLimits);

/** The fields of an owner. */
export const OWNER_FIELDS = [ofExpires, ofLimits("Rate limits of all its keys together"), ofMeta] as const;

/** The fields of a key. */
export const KEY_FIELDS: readonly EditField<KeyResponseData>[] = [
  editField({ name: "name", label: "Name" }, ({ name }) => name ?? ""),
  editField(
    { name: "externalId", label: "Owner", hint: "Customer's id. If it is new, an owner is created." },
    ({ identity }) => identity?.externalId ?? "",
  ),
  ofExpires,
  editField(
    lines("permissions", "Permissions", "One a line, such as documents.read or documents.*"),
    ({ permissions }) => fromLines(permissions),
    toLines,
  ),
  editField(lines("roles", "Roles", "One a line; they must exist."), ({ roles }) => fromLines(roles), toLines),
  ofLimits("Rate limits"),
  editField(
    lines("ipAllowlist", "Allowed addresses", "Addresses or ranges, one a line. Empty: any."),
    ({ ipAllowlist }) => fromLines(ipAllowlist),
    toLines,
  ),
  ofMeta,
];

/** Fields of a refill. @param at where requests have it @param refill what they are filled with */
export function refillFields(at: string, refill?: Refill): readonly Field[] {
  const one = (name: keyof Refill, label: string, more: Partial<Field> = {}): Field => ({
    ...{ name, label, type: "number", at: `${at}.${name}`, value: String(refill?.[name] ?? "") },
    ...more,
  });
  return [
    one("interval", "Refill", {
      type: "select",
      options: [
        ["", "none"],
        ["hourly", "every hour"],
        ["daily", "every day"],
        ["weekly", "every week"],
        ["monthly", "every month"],
      ],
    }),
    one("amount", "Credits per refill"),
    one("refillDay", "Day", {
      value: String(refill?.refillDay ?? 1),
      hint: "With a monthly refill the day of the month, or its last where it is shorter; with a weekly one 1 (Monday) to 7.",
    }),
    one("timeZone", "Time zone", {
      type: "text",
      hint: "Where its hours and days begin, such as Europe/Berlin. Empty: UTC.",
    }),
    one("rollover", "Rollover", {
      hint: "Unused credits that stay at a refill, at most; the rest expires. Empty: all stay. 0: none.",
    }),
  ];
}

/** Credits of whoever has none yet. @param hint of the balance: what it means without one */
export const creditFields = (hint: string): readonly Field[] => [
  { name: "remaining", label: "Credits", type: "number", at: "body.credits.remaining", hint },
  ...refillFields("body.credits.refill"),
];

/** Empty, they allow more: any address, no limit, no end, not the limits and credits of an owner. */
const BOUNDS = {
  externalId: "the owner",
  expires: "the expiry date",
  ratelimits: "all rate limits",
  ipAllowlist: "the allowed addresses",
} as const;

/** Fields of a form filled with what there is, and why it is changed. */
export const filled = <T>(view: FormView, fields: readonly EditField<T>[], of: T): Field[] => [
  ...fields.map(({ field, read }) => ({ ...field, value: read(of) })),
  ...confirmField(view),
  REASON,
];

/** What a form asks for. */
export interface Changes {
  /** Fields of a request. */
  readonly changes: Record<string, unknown>;
  /** Bounds that are emptied without the tick. */
  readonly problems: readonly ValidationProblem[];
}

/** What a form asks for: of what there is, what differs from it; of a new one, what is not blank. */
export function changesOf<T>(form: URLSearchParams, fields: readonly EditField<T>[], of?: T): Changes {
  const changes: Record<string, unknown> = {};
  const problems: ValidationProblem[] = [];
  for (const { field, read, write } of fields) {
    const sent = asShown(form.get(field.name) ?? "", field);
    if (of === undefined ? sent.trim() === "" : sent === asShown(read(of), field)) continue;
    const bound = Object.hasOwn(BOUNDS, field.name) ? BOUNDS[field.name as keyof typeof BOUNDS] : undefined;
    if (sent.trim() === "" && bound !== undefined) problems.push(...unconfirmed(form, field.name, bound));
    changes[field.name] = write(sent);
  }
  return { changes, problems };
}

/** Text as a browser returns it: without line breaks in one line, and with its own in many. */
const asShown = (text: string, { type }: Field): string =>
  type === "lines" ? text.replaceAll("\r\n", "\n").replace(/\n+$/, "") : text.replace(/[\r\n]/g, "");

/** Credits that a form asks for; undefined: none of its own. */
export function creditsOf(form: URLSearchParams): object | undefined {
  const [remaining, refill] = [form.get("remaining") ?? "", refillOf(form)];
  if (remaining === "" && refill === undefined) return undefined;
  return { remaining: toNumber(remaining), ...(refill && { refill }) };
}

/** The refill that a form asks for; undefined: none. */
export function refillOf(form: URLSearchParams): object | undefined {
  const value = (name: string): string => form.get(name) ?? "";
  const interval = value("interval");
  if (interval === "") return undefined;
  const hasDay = interval === "monthly" || interval === "weekly";
  const more = {
    ...(hasDay && { refillDay: toNumber(value("refillDay")) }),
    ...(value("timeZone") !== "" && { timeZone: value("timeZone") }),
    ...(value("rollover") !== "" && { rollover: toNumber(value("rollover")) }),
  };
  return { interval, amount: toNumber(value("amount")), ...more };
}

/** Digits, also in groups of three; `10.000` is ten here and ten thousand elsewhere, and `1,5` is no fifteen. */
const NUMBER = /^-?(?:\d+(?:\.\d{1,2})?|\d{1,3}([,_ ])\d{3}(?:\1\d{3})*)$/;

/** A number; any other text as it is, so that the operation says what is wrong with it. */
export const toNumber = (text: string): number | string =>
  NUMBER.test(text.trim()) ? Number(text.replace(/[,_ ]/g, "")) : text;

const orText = (value: number, text: string): number | string => (Number.isNaN(value) ? text : value);

const LIMIT = /^(.*\S)\s+(\d[\d,_]*)\s*\/\s*(\d+(?:\.\d{1,3})?)(\s+auto)?$/;

/** Limits in lines; a line of another form becomes a limit without numbers, which no operation takes. */
function readLimits(text: string | null): object[] {
  return toLines(text).map((one) => {
    const [, name, limit = "", seconds = "", auto] = LIMIT.exec(one) ?? [];
    if (name === undefined) return { name: one };
    return {
      name,
      limit: toNumber(limit),
      duration: Math.round(Number(seconds) * 1_000),
      autoApply: auto !== undefined,
    };
  });
}

export function toLimitLines(limits: readonly RatelimitResponse[] = []): string {
  const line = ({ name, limit, duration, autoApply }: RatelimitResponse): string =>
    `${name} ${limit}/${duration / 1_000}${autoApply ? " auto" : ""}`;
  return fromLines(limits.map(line));
}

const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/** `100 every day`, `100 every Monday in Europe/Berlin, at most 20 stay`. */
export function toRefill({ interval, amount, refillDay = 1, timeZone, rollover }: Refill): string {
  const when = {
    hourly: "every hour",
    daily: "every day",
    weekly: `every ${WEEKDAYS[refillDay - 1]}`,
    monthly: `on day ${refillDay} of each month`,
  }[interval];
  const zone = timeZone === undefined ? "" : ` in ${timeZone}`;
  const stays =
    rollover === undefined ? "" : rollover === 0 ? ", unused ones expire" : `, at most ${number(rollover)} stay`;
  return `${number(amount)} ${when}${zone}${stays}`;
}
