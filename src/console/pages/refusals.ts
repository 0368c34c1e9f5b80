/** Why calls of a key, or of all keys of an owner, were refused: by hour and code, and the last ones of a key. */
import type { Refusals, RefusalsOf } from "../../analytics/refusals.js";
import type { Refusal } from "../../contracts/outcomes.js";
import { count, dated, DAY, number, time, toDate, window } from "../../view/format.js";
import { html, type Html, type Part } from "../../view/html.js";
import { badge, chips, code, link, muted, name, section, table } from "../../view/parts.js";
import { ifAble, ifCounted } from "../ask.js";
import type { View } from "../view/view.js";
import { toKey } from "./key-parts.js";

const NEEDS = "analytics.getRefusals";
/** Days that are shown, and how the address asks for more. */
const DAYS = 1;
const MORE_DAYS = 7;

const daysOf = ({ query }: View): number => (query.get("refused") === String(MORE_DAYS) ? MORE_DAYS : DAYS);

/**
 * The refusals of a day, or of a week where the address asks for it.
 * @param apiId of the key; absent: of keys of any API
 * @returns undefined: nobody counts them, or the caller may not read them
 */
export async function findRefusals(view: View, of: RefusalsOf, apiId?: string): Promise<Refusals | undefined> {
  if (view.analyticsOf(apiId) === undefined) return undefined;
  return ifCounted(ifAble(view.ask(NEEDS, { ...of, from: view.now - daysOf(view) * DAY })));
}

/** That calls were refused lately, and what the last one was refused for. */
export function lastRefused(view: View, { hours, last: [last] }: Refusals): Part {
  const times = hours.reduce((sum, { count: some }) => sum + some, 0);
  if (last === undefined || times === 0) return undefined;
  const query = last.permissions !== undefined && html`, for the query <bdi class="ks-mono">${last.permissions}</bdi>`;
  return html`<p class="ks-alert ks-warn">${count(times, "call was", "calls were")} refused in ${spanOf(view)}. The last one ${dated(last.time, view.now)}: ${last.code}${query}.</p>`;
}

const spanOf = (view: View): string => (daysOf(view) === MORE_DAYS ? `${MORE_DAYS} days` : "24 hours");

/** The same by hour, with the last ones. @param whose below, such as the keys that were refused most */
export function refusalsOf(view: View, of: RefusalsOf, found: Refusals, whose?: Part): Html {
  const isMore = daysOf(view) === MORE_DAYS;
  const here = view.path(view.here);
  const other = isMore ? link(here, "Last 24 hours") : link(`${here}?refused=${MORE_DAYS}`, `Last ${MORE_DAYS} days`);
  const { keyId } = of;
  const last =
    keyId !== undefined &&
    found.last.length > 0 &&
    html`<div class="ks-below">${lastTable(view, keyId, found.last)}</div>`;
  return section(`Refused in ${spanOf(view)}`, html`${byHour(found.hours)}${whose}${last}`, other);
}

interface Hour {
  readonly time: number;
  readonly code: string;
  readonly count: number;
}

/** Newest first, a row an hour; before it how many there were of each code. */
function byHour(hours: readonly Hour[]): Html {
  const [byCode, byTime] = [new Map<string, number>(), new Map<number, Part[]>()];
  for (const { time: at, code: reason, count: times } of hours) {
    byCode.set(reason, (byCode.get(reason) ?? 0) + times);
    byTime.set(at, [...(byTime.get(at) ?? []), html`${badge("bad", reason)} ${number(times)}`]);
  }
  const sums = [...byCode].map(([reason, times]) => html`<span>${badge("bad", reason)} ${number(times)}</span>`);
  const rows = [...byTime]
    .reverse()
    .map(([at, reasons]): Part[] => [toDate(at).replace(":00 UTC", ""), chips(reasons)]);
  return html`${sums.length > 0 && html`<p class="ks-legend">${sums}</p>`}
    ${table("Refused by hour", ["Hour (UTC)", "Refused"], rows, "No call was refused.")}`;
}

/** `17:59:02`. */
const clock = (at: number): string => toDate(at).slice(11, 19);

/** The last refusals, those that are alike in one row. */
function lastTable(view: View, keyId: string, last: readonly Refusal[]): Html {
  const same = new Map<string, Refusal[]>();
  for (const one of last) {
    const { time: _, remaining: __, ratelimit, ...what } = one;
    const id = JSON.stringify([what, ratelimit?.name]);
    same.set(id, [...(same.get(id) ?? []), one]);
  }
  const rows = [...same.values()].map((all): Part[] => {
    const [one, first] = [all[0], all.at(-1)] as [Refusal, Refusal];
    const since = all.length > 1 && html`<br>${muted(`${all.length} of these, from ${clock(first.time)} on`)}`;
    return [
      html`${time(one.time, view.now)} ${muted(clock(one.time))}${since}`,
      html`${badge("bad", one.code)}${one.kind === "spend" && html` ${muted("spend")}`}`,
      decided(view, keyId, one),
      number(one.cost),
      chips((one.tags ?? []).map(code)),
    ];
  });
  const columns = ["Last (UTC)", "Refused", "Why", { title: "Cost", isNumber: true }, "Tags"];
  return table("The last refusals", columns, rows, "");
}

/** What a call was refused for, in words. */
function decided(
  view: View,
  keyId: string,
  { code: reason, permissions, ratelimit, address, decidedBy, ...left }: Refusal,
): Part {
  if (permissions !== undefined) {
    const again = `${view.path(toKey(keyId))}?${new URLSearchParams({ query: permissions }).toString()}`;
    return html`The query <bdi class="ks-mono">${permissions}</bdi>. ${link(again, "Explain it now")}`;
  }
  if (ratelimit !== undefined) {
    const { name: called, limit, duration, remaining } = ratelimit;
    return html`The limit ${name(called)}: ${number(remaining)} of ${number(limit)} per ${window(duration)} left.`;
  }
  if (address !== undefined)
    return address === "" ? "The call had no address." : html`The address ${code(address)}, which no allow-list has.`;
  const whose = { identity: "Its owner", api: "Its API or workspace", key: "The key" }[decidedBy ?? "key"];
  if (reason === "USAGE_EXCEEDED") return `${whose} had ${count(left.remaining ?? 0, "credit")} left.`;
  return `${whose} ${reason === "EXPIRED" ? "had expired" : "was disabled"}.`;
}
