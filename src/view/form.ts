/** Forms: one shape of field, with its problem beside it, and proof that the form is one of ours. */
import { badRequest, type KeystileError, type ValidationProblem } from "../contracts/errors.js";
import { newId, shortDigest } from "../lib/hash.js";
import { html, type Html, literal, type Part } from "./html.js";
import { code } from "./parts.js";

/** Field of a form that proves that a page of this caller sent it. */
export const TOKEN = "csrf";
/** Field that lets a form be sent once. */
export const ONCE = "once";
/** Field that says what a form was filled with. */
const SEEN = "seen";

/**
 * Script that drops the second click of a double click: a browser shows only the last answer, and that to a form which
 * was taken before has no text of a key.
 */
export const CLICK_SCRIPT = `{
  let sent = -Infinity;
  document.addEventListener("submit", (event) => {
    if (!event.target.elements.${ONCE}) return;
    if (event.timeStamp - sent < 1000) event.preventDefault();
    else sent = event.timeStamp;
  });
}
`;

/** What a form is made from; a view of the console is one. */
export interface FormView {
  /** A path of these pages as the browser has it. */
  path(to: string): string;
  /** The path of this page, without the mount path. */
  readonly here: string;
  /** What a form sent, so that it can be shown again; empty unless this is a POST. */
  readonly form: URLSearchParams;
  /** What was wrong with what the form sent. */
  readonly failure: Failure | undefined;
  /** Proof that a form came from a page of this caller. */
  readonly token: string;
  /** Default: English. */
  readonly words?: FormWords;
}

/** Why a form failed. */
export interface Failure extends Pick<KeystileError, "errors" | "detail"> {
  /** From 500 on it is not known what was done: the form keeps its id, and is taken once. */
  readonly status?: number;
}

/** What forms say by themselves. */
export interface FormWords {
  readonly cancel: Part;
  readonly unchanged: Part;
  /** In its place, where that is not known. */
  readonly unknown: Part;
  /** After {@link FormWords.unchanged}, where all that is wrong is said beside fields. */
  readonly seeBelow: Part;
  toSentence(problem: ValidationProblem): Part;
}

/** Values of a select with their texts. */
export type Options = readonly (readonly [value: string, text: string])[];

/** A field. */
export interface Field {
  readonly name: string;
  /** Tells it from one of that name in another form of the page; default: the name. */
  readonly id?: string;
  readonly label: Part;
  readonly hint?: Part;
  readonly type?: "text" | "number" | "search" | "password" | "datetime-local" | "lines" | "select" | "checkbox";
  readonly options?: readonly (readonly [value: string, text: Part])[];
  readonly value?: string | undefined;
  readonly isRequired?: boolean;
  /** Where problems with it are reported; default `body.<name>`. */
  readonly at?: string;
  readonly placeholder?: string;
  /** Whether the page opens with the cursor in it. */
  readonly isFocused?: boolean;
}

/** A form that changes something. */
export interface Form {
  /** Where it is sent, below the mount path; default: this page. */
  readonly to?: string;
  readonly fields?: readonly Field[];
  /** Sent with it, by name. */
  readonly hidden?: Readonly<Record<string, string>>;
  readonly submit: Part;
  /** In place of that several buttons, each of which sends another value of this field. */
  readonly choice?: { readonly name: string; readonly options: Options };
  /** It only asks: nothing could have been changed. */
  readonly isQuestion?: boolean;
  readonly tone?: "danger" | "quiet";
  /** A way out, below the mount path. */
  readonly cancel?: string;
  /** Fields on one line with the button. */
  readonly isInline?: boolean;
}

/** A form that changes something: sent once, by a page of this caller. */
export function form(
  given: FormView,
  { to = given.here, fields = [], hidden, submit, choice, isQuestion, tone, cancel, isInline }: Form,
): Html {
  // What was sent, and what was wrong with it, is of the one form that was sent.
  const view = to === given.here ? given : { ...given, form: new URLSearchParams(), failure: undefined };
  // What was refused did nothing, so that the next one is another form. Any other may have been taken already.
  const isRefused = view.failure !== undefined && !isUnknown(view);
  const once = (!isRefused && view.form.get(ONCE)) || newId("form");
  const kept = Object.entries({ [TOKEN]: view.token, [ONCE]: once, ...hidden });
  // The first field that has a problem is scrolled to, with the cursor in it; without one, what is wrong is.
  const faulty = fields.find((one) => problemOf(view, one) !== undefined);
  const shown = fields.map((one) => field(view, one === faulty ? { ...one, isFocused: true } : one));
  const shape = isInline === true ? " ks-inline" : fields.length > 4 && " ks-wide";
  const way = (text: Part, state?: Html) =>
    html`<button class="ks-button ks-${tone ?? "primary"}"${state}>${text}</button>`;
  const ways = choice?.options.map(([value, text]) => way(text, html` name="${choice.name}" value="${value}"`));
  return html`<form method="post" action="${view.path(to)}" class="ks-form${shape}">
    ${kept.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
    ${(isQuestion !== true || faulty === undefined) && problemsOf(view, fields, faulty === undefined)}${shown}
    <div class="ks-buttons">${ways ?? way(submit)}
    ${cancel !== undefined && button(view, cancel, wordsOf(view).cancel)}</div></form>`;
}

/** A form filled with what there is. What it sends goes to {@link requireUnchanged} before anything else. */
export const editForm = (view: FormView, one: Form & { readonly fields: readonly Field[] }): Html =>
  form(view, { ...one, hidden: { [SEEN]: view.form.get(SEEN) ?? digestOf(one.fields) } });

/**
 * Refuses a form if what it was filled with has changed since: to save it would change that back. One that lost a field
 * is refused too: it would empty that.
 * @param fields those of the form, as it would be filled now
 * @throws KeystileError BAD_REQUEST
 */
export function requireUnchanged({ form: sent }: FormView, fields: readonly Field[]): void {
  const refuse = (message: string) => badRequest([{ location: "body", message }]);
  if (sent.get(SEEN) !== digestOf(fields)) throw refuse("This was changed meanwhile; go back to it and edit it again.");
  if (fields.some(({ name, type }) => type !== "checkbox" && !sent.has(name)))
    throw refuse("A field of this form did not arrive; load the page again.");
}

const digestOf = (fields: readonly Field[]): string => {
  const filled = fields.filter(({ type }) => type !== "checkbox");
  return shortDigest(JSON.stringify(filled.map(({ name, value = "" }) => [name, value])));
};

/** A link that looks like a button. */
export const button = (view: FormView, to: string, text: Part, tone: "quiet" | "primary" | "danger" = "quiet"): Html =>
  html`<a class="ks-button ks-${tone}" href="${view.path(to)}">${text}</a>`;

/**
 * A form that searches a list, by default that of this page. It is sent by POST, so that the text of a key is
 * recognised before it could be part of an address; anything else is searched for at an address all the same, for which
 * the script asks as one types.
 */
export function searchForm(
  view: FormView,
  label: string,
  fields: readonly Field[],
  more?: Part,
  to: string = view.here,
): Html {
  const at = view.path(to);
  return html`<form method="post" action="${at}" role="search" aria-label="${label}" class="ks-form ks-inline ks-live">
    <input type="hidden" name="${TOKEN}" value="${view.token}">${fields.map((one) => field(view, one))}${more}
    <div class="ks-buttons"><button class="ks-button ks-quiet">Search</button></div></form>`;
}

/** A form that only asks, so that its answer has an address. */
export function askForm(view: FormView, label: string, fields: readonly Field[], submit: string, to: string): Html {
  return html`<form method="get" action="${view.path(to)}" role="search" aria-label="${label}" class="ks-form ks-inline ks-live">
    ${fields.map((one) => field(view, one))}
    <div class="ks-buttons"><button class="ks-button ks-quiet">${submit}</button></div></form>`;
}

/** A form that deletes: what is deleted must be typed. */
export function typedForm(view: FormView, form_: Omit<Form, "tone">, what: string, expected: string): Html {
  const typed: Field = { name: "typed", label: `Type ${what}`, hint: code(expected), isRequired: true };
  return form(view, { ...form_, fields: [typed, ...(form_.fields ?? [])], tone: "danger" });
}

/** @throws KeystileError BAD_REQUEST: another text was typed */
export function requireTyped({ form: sent }: FormView, expected: string): void {
  if (sent.get("typed") === expected) return;
  throw badRequest([{ location: "body.typed", message: `That does not match. Type "${expected}".` }]);
}

const CONFIRM = { name: "confirm", label: "Yes, remove it", type: "checkbox" } as const;
const UNCONFIRMED = /^Tick the box below/;

/** What must be ticked where more is allowed from then on, such as by an empty field: asked for once it is. */
export const confirmField = ({ failure, form: sent }: FormView): readonly Field[] =>
  sent.has(CONFIRM.name) || failure?.errors.some(({ message }) => UNCONFIRMED.test(message)) === true ? [CONFIRM] : [];

/** The problem that {@link confirmField} is not ticked, if it is not. @param at where it is shown @param what goes */
export function unconfirmed(sent: URLSearchParams, at: string, what: string): readonly ValidationProblem[] {
  if (sent.has(CONFIRM.name)) return [];
  return [{ location: `body.${at}`, message: `Tick the box below to remove ${what}.` }];
}

/** A field, with what was sent before, if it was. */
export function field(view: FormView, one: Field): Html {
  const { name, id: own = name, label, hint, type = "text", ...rest } = one;
  const id = `ks-${own}`;
  const isSent = view.form.has(TOKEN);
  const problem = problemOf(view, one);
  const about = problem !== undefined ? `${id}-problem` : hint !== undefined && `${id}-hint`;
  const state = html`id="${id}" name="${name}"
    ${about !== false && html` aria-describedby="${about}"`}${problem && html` aria-invalid="true"`}
    ${rest.isRequired === true && html` required`}${rest.isFocused === true && html` autofocus`}`;
  const notes = html`${hint !== undefined && html`<p class="ks-hint" id="${id}-hint">${hint}</p>`}
    ${problem && html`<p class="ks-problem" id="${id}-problem">${wordsOf(view).toSentence(problem)}</p>`}`;
  const value = type === "password" ? "" : (view.form.get(name) ?? rest.value ?? "");
  const title = html`<label for="${id}">${label}</label>`;
  if (type !== "checkbox")
    return html`<div class="ks-field">${title}${control(type, state, value, rest)}${notes}</div>`;
  const isOn = isSent ? view.form.has(name) : rest.value === "on";
  return html`<div class="ks-field ks-check">
    <input type="checkbox" value="on" ${state}${isOn && html` checked`}>${title}${notes}</div>`;
}

function control(
  type: NonNullable<Field["type"]>,
  state: Html,
  value: string,
  { options = [], placeholder = "" }: Pick<Field, "options" | "placeholder">,
): Html {
  // A line break after the tag is not part of the text.
  if (type === "lines") return html`<textarea ${state} rows="3" spellcheck="false">${literal(`\n${value}`)}</textarea>`;
  if (type === "select") {
    const option = ([one, text]: (typeof options)[number]): Html =>
      html`<option value="${one}"${one === value && html` selected`}>${text}</option>`;
    return html`<select ${state}>${options.map(option)}</select>`;
  }
  // Not of the type number, which hides what is no number.
  const kind = type === "number" ? html`type="text" inputmode="numeric"` : html`type="${type}"`;
  return html`<input ${kind} ${state} value="${value}" placeholder="${placeholder}" spellcheck="false" autocomplete="off">`;
}

/** What is wrong, unless it is said beside a field. */
function problemsOf(view: FormView, fields: readonly Field[], isFocused: boolean): Part {
  const { failure, form: sent } = view;
  if (failure === undefined || !sent.has(TOKEN)) return undefined;
  const others = problemsIn(failure).filter(({ location }) => !fields.some((one) => isAt(location, placeOf(one))));
  const { unchanged, unknown, seeBelow, toSentence } = wordsOf(view);
  const lines = others.map(toSentence);
  return html`<div class="ks-alert ks-bad" role="alert"${isFocused && html` tabindex="-1" autofocus`}>
    <p>${isUnknown(view) ? unknown : unchanged}${lines.length === 0 && html` ${seeBelow}`}</p>
    ${lines.length > 0 && html`<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>`}</div>`;
}

/** Whether the form may have done what it does. */
const isUnknown = ({ failure }: FormView): boolean => (failure?.status ?? 0) >= 500;

const placeOf = ({ name, at }: Field): string => at ?? `body.${name}`;

/** What is wrong with a field of the form that was sent. */
function problemOf({ failure, form: sent }: FormView, one: Field): ValidationProblem | undefined {
  if (failure === undefined || !sent.has(TOKEN)) return undefined;
  return problemsIn(failure).find(({ location }) => isAt(location, placeOf(one)));
}

/** An error without a list of problems names in its text the field that it is about, if it is about one. */
function problemsIn({ errors, detail }: Failure): readonly ValidationProblem[] {
  if (errors.length > 0) return errors;
  return [
    { location: /\bbody\.[\w.[\]]+/.exec(detail)?.[0] ?? "", message: detail.replace(/ at body\.[\w.[\]]+/, "") },
  ];
}

/** `body.limits[2].name` is at `body.limits`. */
const isAt = (location: string, place: string): boolean =>
  location.startsWith(place) && /^(?:$|[.[])/.test(location.slice(place.length));

const ENGLISH: FormWords = {
  cancel: "Cancel",
  unchanged: "Nothing was changed.",
  unknown: "It may not have been done. What you typed is kept: look whether it was, or send it again.",
  seeBelow: "See the fields below.",
  toSentence: ({ location, message, fix }) => {
    const told = `${location.replace(/^body\.?/, "")} ${message}${fix === undefined ? "" : `: ${fix}`}`.trim();
    // A sentence of these pages names its field itself.
    if (/^[A-Z]/.test(message)) return message;
    const [said, sentence] = SENTENCES.find(([known]) => known.test(told)) ?? [];
    return said === undefined || sentence === undefined ? told : told.replace(said, sentence);
  },
};
/** What operations say to programs, and what people read in its place. */
const SENTENCES: readonly (readonly [said: RegExp, sentence: string])[] = [
  [/^.* must be an integer from \S+ to 9007199254740991$/, "Enter a whole number."],
  [/^.* must be an integer from (\S+) to (\S+)$/, "Enter a whole number from $1 to $2."],
  [/^\S+ must be Unix time in milliseconds.*$/, "Enter a date and a time before 2100, such as 2026-12-31T18:00."],
  [/^ratelimits\[.* is required$/, "Write each line as a name, then number/seconds, such as requests 100/60."],
  [/^\S+ is required$/, "Fill this in."],
];
const wordsOf = ({ words = ENGLISH }: FormView): FormWords => words;
