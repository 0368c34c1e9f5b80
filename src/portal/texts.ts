/** Everything that a portal says, in one table, and numbers and dates as its language writes them. */
import { type Check, checkOptions, ownProperty } from "../lib/check-options.js";
import { html, type Html, literal, type Part } from "../view/html.js";

/** The English texts. A part in braces stands for what is put there. */
export const ENGLISH = {
  portal: "API keys",
  skip: "Skip to content",
  keys: "Keys",
  usage: "Usage",
  statement: "Statement",
  cancel: "Cancel",
  utc: "Days and times are those of UTC.",
  nextPage: "Next page",
  firstPage: "First page",

  newKey: "New key",
  noKeysYet: "There are no keys yet.",
  name: "Name",
  nameHint: "For you alone, such as where the key is used.",
  nameless: "Without a name",
  mayDo: "It may {permission}",
  permissions: "May",
  make: "Make the key",
  made: "The key is made",
  copyNow: "Copy it now: it is shown this once.",
  key: "Key",
  copy: "Copy",
  copied: "Copied",
  copyByHand: "Press Ctrl+C",
  toKey: "Go to the key",
  created: "Created",
  lastUsed: "Last used",
  never: "never",
  expires: "Expires",
  addresses: "Works from",
  state: "State",
  credits: "Credits",
  replacedBy: "Replaced by",
  replaces: "Replaces",

  active: "active",
  worksUntil: "works until {date}",
  disabled: "disabled",
  rotated: "replaced",
  expired: "expired",
  forbidden: "suspended",
  exhausted: "out of credits",

  rename: "Rename",
  rotate: "Replace",
  rotateTitle: "Replace {name}",
  rotateLead:
    "You get a new key with the same settings. The old one works until the time that you choose. If somebody else may have it, let it end now.",
  rotateEnds: "The key before it, {key}, {until}. It ends now, whatever you choose.",
  overlap: "The old key works for",
  overlapNone: "no longer: it ends now",
  overlapHour: "1 hour",
  overlapDay: "1 day",
  overlapWeek: "7 days",
  rotatedNow: "The new key",
  revoke: "Revoke",
  revokeTitle: "Revoke {name}",
  revokeLead: "Whatever uses this key stops working at once, and it cannot be brought back.",

  creditsLeft: "Credits left",
  left: "Left",
  leftOf: "{left} of {whole}",
  plan: "Plan",
  grant: "Extra credits",
  overage: "Beyond the plan",
  next: "Next credits",
  nextCredits: "{amount} on {date}",

  lastDays: "Last 30 days",
  byKey: "By key",
  byDay: "By day",
  day: "Day",
  calls: "Calls",
  refused: "Refused",
  spent: "Credits spent",
  noUsage: "Nothing was used.",
  tooMuchUsage: "There is too much to add up for a page.",

  statementOf: "Statement of {month}",
  previousMonth: "Previous month",
  nextMonth: "Next month",
  download: "Download as CSV",
  what: "What",
  opening: "At first",
  closing: "At the end",
  now: "Now",
  refill: "Refill",
  granted: "Extra credits",
  adjustment: "Adjustment",
  moved: "Key moved",
  unexplained: "Other adjustments",
  forfeited: "Forfeited",
  creditsExpired: "Expired",
  changes: "Changes",
  noChanges: "Nothing but calls changed the balance.",
  spentByDay: "Spent by day",
  notCounted: "No balance of this month was counted.",
  countedSince: "Counting began on {date}: earlier changes are of that day.",

  nowRenamed: "The key has another name.",
  nowRevoked: "The key is revoked.",
  unchanged: "Nothing was changed.",
  unknown: "It may not have been done. Look whether it was, or send it again.",
  seeBelow: "See the fields below.",
  badName: "A name has 1 to 255 characters.",
  noPermission: "Tick what the key may do.",
  badChoice: "Choose one of these.",
  badForm: "This cannot be read. Load the page again.",
  notYourForm: "This form is not of your session. Load the page again.",
  sentBefore: "This form was sent before. Go back and look at the result.",
  keyLimit: "You have as many keys as you may. Revoke one first.",
  noNewKey: "No key can be made now, because your account has no credits, or was suspended.",
  notReplaceable: "This key cannot be replaced: it was replaced before, has expired, or your account was suspended.",
  notFound: "There is no such page or key.",
  signedOut: "You are not signed in.",
  signIn: "Sign in",
  busy: "This does not work just now. Try again in a moment.",
  wrong: "Something went wrong.",
  request: "Request {id}",
} as const;

/** The name of a text. */
export type TextName = keyof typeof ENGLISH;
/** Every text of a portal by its name, each 1–1,000 characters. */
export type PortalTexts = Readonly<Record<keyof typeof ENGLISH, string>>;

const checkText: Check = (value, path) => {
  if (typeof value !== "string" || value === "" || value.length > 1_000)
    throw new TypeError(`${path} must be a text of 1 to 1,000 characters`);
};
const CHECKS = Object.fromEntries(Object.keys(ENGLISH).map((name) => [name, checkText]));

/** The check of the option `texts`. */
export const checkTexts: Check = (value, path) => void checkOptions(value, CHECKS, path);

/** The check of the option `lang`. */
export const checkLanguage: Check = (value, path) => {
  if (typeof value !== "string" || !/^[a-zA-Z]{2,8}(?:-[a-zA-Z0-9]{1,8}){0,5}$/.test(value) || !isLocale(value))
    throw new TypeError(`${path} must be the tag of a language, such as en or pt-BR`);
};

function isLocale(tag: string): boolean {
  try {
    return Intl.getCanonicalLocales(tag).length === 1;
  } catch {
    return false;
  }
}

export function createLanguage(lang = "en", texts: Partial<PortalTexts> = {}) {
  const all = { ...ENGLISH, ...Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== undefined)) };
  const numbers = new Intl.NumberFormat(lang);
  const signs = new Intl.NumberFormat(lang, { signDisplay: "exceptZero" });
  const dates = (options: Intl.DateTimeFormatOptions) => {
    const format = new Intl.DateTimeFormat(lang, { ...options, timeZone: "UTC" });
    // Marks of direction, which templates would show as their numbers.
    return (at: number): string => format.format(at).replace(/\p{Cf}/gu, "");
  };
  const day = dates({ dateStyle: "medium" });
  const time = dates({
    ...{ year: "numeric", month: "short", day: "numeric" },
    ...{ hour: "numeric", minute: "2-digit", timeZoneName: "short" },
  });
  return {
    lang,
    /**
     * A text, with its invisible characters, which some languages need.
     * @param values what stands in place of parts in braces
     */
    say(name: TextName, values: Readonly<Record<string, Part>> = {}): Html {
      const parts = all[name].split(/\{(\w+)\}/);
      return html`${parts.map((part, i) => (i % 2 === 0 ? literal(part) : (ownProperty(values, part) ?? literal(`{${part}}`))))}`;
    },
    number: (value: number): string => numbers.format(value),
    /** With its sign. */
    signed: (value: number): string => signs.format(value).replace(/\p{Cf}/gu, ""),
    /** Days and months are those of UTC. @param at Unix time, milliseconds */
    day,
    month: dates({ month: "long", year: "numeric" }),
    /** The day, with its time as a title. */
    date: (at: number): Html =>
      html`<time datetime="${new Date(at).toISOString()}" title="${time(at)}">${day(at)}</time>`,
    time: (at: number): Html => html`<time datetime="${new Date(at).toISOString()}">${time(at)}</time>`,
  };
}

/** Texts, numbers and times in one language. */
export type Language = ReturnType<typeof createLanguage>;
