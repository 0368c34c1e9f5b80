/**
 * Plans and grants of an owner or of a key with credits of its own: what is left in each account, and the forms that
 * change the plan and grant credits.
 *
 * Why each form passes its own id on as an idempotency key: the console remembers in memory which forms were sent, and
 * another process, or the same after a restart, would pay a second time.
 */
import type { GrantData, KeyCredits } from "../../keyring/schemas/responses.js";
import { ifAble, refuseProblems } from "../ask.js";
import { number, time } from "../../view/format.js";
import {
  button,
  confirmField,
  editForm,
  type Field,
  form,
  ONCE,
  type Options,
  requireUnchanged,
  unconfirmed,
} from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { bar, link, muted, name, table } from "../../view/parts.js";
import type { Content, Done, Page, View } from "../view/view.js";
import {
  creditFields,
  creditsOf,
  EXPIRES,
  readExpiry,
  REASON,
  reasonOf,
  refillFields,
  refillOf,
  toNumber,
  toRefill,
} from "./key-fields.js";
import { balance, creditChange, creditForm } from "./key-parts.js";

/** Who has credits. */
export interface Holder {
  readonly group: "identities" | "keys";
  /** How requests name it. */
  readonly named: { readonly identity: string } | { readonly keyId: string };
  /** The path of its page. */
  readonly to: string;
  /** Absent: its credits are not limited. */
  readonly credits: KeyCredits | undefined;
}

const COLUMNS = ["Grant", "Left", "Priority", "Expires", "Reason"];

/** What is left in each account, and what can be done with it. @param none what is said where there is none */
export async function showAccounts(view: View, holder: Holder, none: Part): Promise<Html> {
  const { group, to, credits, named } = holder;
  const left = credits?.remaining;
  const isLimited = typeof credits?.remaining === "number";
  const grants = isLimited && view.may(`${group}.listGrants`) && (await ifAble(view.ask(`${group}.listGrants`, named)));
  return html`${credits === undefined ? none : balance(credits, view.now)}
    ${grants && grants.grants.length > 0 && grantTable(view, grants.grants)}
    ${typeof left === "number" && view.may(`${group}.updateCredits`) && creditForm(view, to)}
    <div class="ks-buttons ks-below">${planWays(view, holder)}</div>`;
}

/** The ways to the forms of a plan and of a grant. */
export function planWays(view: View, { group, to, credits }: Holder): Part {
  const isLimited = typeof credits?.remaining === "number";
  const way = (what: string, text: string) => button(view, `${to}/${what}`, text);
  return html`${view.may(`${group}.changePlan`) && way("plan", isLimited ? "Change plan" : group === "keys" ? "Give this key credits of its own" : "Give this owner credits")}
    ${isLimited && view.may(`${group}.grantCredits`) && way("grant", "Grant credits")}
    ${(credits?.granted ?? 0) > 0 && view.may(`${group}.endGrant`) && way("end-grant", "End a grant")}`;
}

function grantTable(view: View, grants: readonly GrantData[]): Html {
  const rows = grants.map((grant): Part[] => {
    const { grantId, amount, remaining, reserved = 0, refill, priority, expires, reason } = grant;
    const left = bar(remaining, amount, `${number(remaining)} of ${number(amount)}`);
    return [
      html`${name(grantId)}${refill && html`<br> ${muted(toRefill(refill))}`}`,
      html`${left}${reserved > 0 && muted(`${number(reserved)} set aside`)}`,
      String(priority),
      time(expires, view.now),
      reason === undefined ? muted("none") : name(reason),
    ];
  });
  return table("Grants", COLUMNS, rows, "No grants.");
}

const WHEN: Options = [
  ["nothing", "With the next refill"],
  ["difference", "Now: what it gives more is added at once"],
];
/** Of a balance that is set for the first time. */
const FIRST = "What may be spent until the first refill.";

/** The id of the form that was sent: the same, however often it is. */
const idOfForm = ({ form: sent }: View): string => sent.get(ONCE) ?? "";

function planFields(view: View, { credits }: Holder): readonly Field[] {
  if (typeof credits?.remaining !== "number") return [...creditFields(FIRST), REASON];
  const now: Field = { name: "now", label: "Takes effect", type: "select", options: WHEN };
  return [...refillFields("body.refill", credits.refill), now, REASON, ...confirmField(view)];
}

function planForm(view: View, holder: Holder): Html {
  const { to, credits } = holder;
  const fields = planFields(view, holder);
  const lead =
    typeof credits?.remaining === "number"
      ? "The balance stays. A smaller plan takes nothing away. A change of the interval, the day or the zone counts from now on."
      : "From then on its calls take credits, and are refused once none are left.";
  return html`<p class="ks-lead">${lead}</p>${editForm(view, { to: `${to}/plan`, fields, submit: "Save", cancel: to })}`;
}

async function changePlan(view: View, holder: Holder): Promise<Done> {
  const { group, named, to, credits } = holder;
  const { form: sent } = view;
  requireUnchanged(view, planFields(view, holder));
  const update = async (credits: object): Promise<Done> => {
    const body = { ...named, credits, ...reasonOf(sent) };
    await view.ask(group === "keys" ? "keys.updateKey" : "identities.updateIdentity", body);
    return { to, notice: "plan" };
  };
  // Without an amount it is refused: it would leave what is unlimited as it is.
  if (typeof credits?.remaining !== "number") return update(creditsOf(sent) ?? { remaining: "" });
  const refill = refillOf(sent);
  if (refill === undefined) {
    refuseProblems(unconfirmed(sent, "refill.interval", "the refill"), `${group}.changePlan`, named);
    return update({ refill: null });
  }
  const body = { ...named, refill, now: sent.get("now"), ...reasonOf(sent) };
  if (credits.refill?.rollover !== undefined && !("rollover" in refill))
    refuseProblems(unconfirmed(sent, "refill.rollover", "the bound of the rollover"), `${group}.changePlan`, body);
  await view.ask(`${group}.changePlan`, body, { idempotencyKey: idOfForm(view) });
  return { to, notice: "plan" };
}

function grantForm(view: View, { to }: Holder): Html {
  const fields: readonly Field[] = [
    { name: "credits", label: "Credits", type: "number", at: "body.amount", isRequired: true },
    {
      name: "grantId",
      label: "Id",
      hint: "Such as the id of the order: the same id again adds nothing. Empty: a new one.",
    },
    EXPIRES,
    {
      name: "priority",
      label: "Priority",
      type: "number",
      hint: "The lowest is spent first; the plan has 100. Empty: 100.",
    },
    REASON,
    ...refillFields("body.refill"),
  ];
  const lead = "Granted credits lie beside the balance, and may end before it.";
  return html`<p class="ks-lead">${lead}</p>${form(view, { to: `${to}/grant`, fields, submit: "Grant", cancel: to })}`;
}

async function grant(view: View, { group, named, to }: Holder): Promise<Done> {
  const { form: sent } = view;
  const expires = readExpiry(sent.get(EXPIRES.name) ?? "");
  const priority = sent.get("priority") ?? "";
  const refill = refillOf(sent);
  const { created } = await view.ask(`${group}.grantCredits`, {
    ...named,
    ...{ amount: toNumber(sent.get("credits") ?? ""), grantId: sent.get("grantId") || idOfForm(view) },
    ...(expires !== null && { expires }),
    ...(priority !== "" && { priority: toNumber(priority) }),
    ...(refill && { refill }),
    ...reasonOf(sent),
  });
  return { to, notice: created ? "granted" : "known" };
}

async function endForm(view: View, { group, named, to }: Holder): Promise<Html> {
  const { grants } = await view.ask(`${group}.listGrants`, named);
  const options = grants.map(({ grantId, remaining, amount }): Options[number] => [
    grantId,
    `${grantId}: ${number(remaining)} of ${number(amount)} left`,
  ]);
  const fields: readonly Field[] = [{ name: "grantId", label: "Grant", type: "select", options }, REASON];
  const lead = "What is left of it is taken away, also what is set aside. It does not come back.";
  return html`<p class="ks-lead">${lead}</p>${form(view, { to: `${to}/end-grant`, fields, submit: "End grant", cancel: to })}`;
}

async function endGrant(view: View, { group, named, to }: Holder): Promise<Done> {
  await view.ask(`${group}.endGrant`, { ...named, grantId: view.form.get("grantId") ?? "", ...reasonOf(view.form) });
  return { to, notice: "ended" };
}

async function changeCredits(view: View, { group, named, to }: Holder): Promise<Done> {
  await view.ask(`${group}.updateCredits`, { ...named, ...creditChange(view) }, { idempotencyKey: idOfForm(view) });
  return { to, notice: "credits" };
}

/** The pages of whoever has credits. @param path of its page @param show makes that @param find reads it */
export function planPages(
  path: string,
  group: Holder["group"],
  show: Page["show"],
  find: (view: View, id: string) => Promise<Holder>,
) {
  const page =
    (title: string, body: (view: View, holder: Holder) => Html | Promise<Html>) =>
    async (view: View, id: string): Promise<Content> => {
      const holder = await find(view, id);
      const named = Object.values(holder.named)[0] as string;
      return { title, about: link(view.path(holder.to), name(named)), body: await body(view, holder) };
    };
  const act = (done: (view: View, holder: Holder) => Promise<Done>) => async (view: View, id: string) =>
    done(view, await find(view, id));
  return [
    { path: `${path}/credits`, needs: `${group}.updateCredits`, show, act: act(changeCredits) },
    { path: `${path}/plan`, needs: `${group}.changePlan`, show: page("Change plan", planForm), act: act(changePlan) },
    { path: `${path}/grant`, needs: `${group}.grantCredits`, show: page("Grant credits", grantForm), act: act(grant) },
    { path: `${path}/end-grant`, needs: `${group}.endGrant`, show: page("End a grant", endForm), act: act(endGrant) },
  ] as const satisfies readonly Page[];
}
