/** Import of keys that were hashed elsewhere, as many as a form holds: first a dry run, with counts by reason. */
import { badRequest, isKeystileError, type KeystileError, type ValidationProblem } from "../../contracts/errors.js";
import type { Json } from "../../contracts/types.js";
import { count, number } from "../../view/format.js";
import { wrongTimesInKey } from "../../lib/seconds.js";
import { type Field, form } from "../../view/form.js";
import { html, type Html, type Part } from "../../view/html.js";
import { code, table } from "../../view/parts.js";
import { type Ask, refuseProblems } from "../ask.js";
import type { Content, Done, Page, View } from "../view/view.js";
import { apiField } from "./key-parts.js";

const NEEDS = "keys.migrateKeys";
const EXAMPLE = code('[{"hash": "9f86d0…", "name": "first key"}]');
const KEYS: Field = {
  ...{ name: "keys", label: "Keys", type: "lines", isRequired: true },
  hint: html`A JSON array, such as ${EXAMPLE}. A form holds 16 kB; ${code("keystile import")} takes any number.`,
};

async function show(view: View): Promise<Content> {
  const fields: readonly Field[] = [
    {
      name: "migrationId",
      label: "Migration",
      hint: html`Its id, from ${code("keystile migrations create")}: it says how the keys were hashed.`,
      isRequired: true,
    },
    await apiField(view),
    KEYS,
  ];
  const choice = {
    name: "way",
    options: [
      ["check", "Only check them"],
      ["import", "Import"],
    ],
  } as const;
  const body = form(view, { fields, submit: "Import", choice, cancel: "/" });
  return { title: "Import", about: "Keys that were hashed elsewhere.", body };
}

async function act(view: View): Promise<Done> {
  const { form: sent } = view;
  const body = {
    migrationId: sent.get("migrationId"),
    apiId: sent.get("apiId"),
    keys: readKeys(sent.get("keys") ?? ""),
  };
  const back = html`<p class="ks-below"><a href="${view.path("/import")}">Back to the import</a></p>`;
  const [way, isDry] = [sent.get("way"), sent.get("way") === "check"];
  // A form that lost the field imports nothing.
  if (!isDry && way !== "import")
    throw badRequest([{ location: "body.way", message: "Choose whether to check the keys or to import them." }]);
  const results = await migrate(isDry ? view.preview : view.ask, body).catch(asInvalid);
  if (isKeystileError(results)) {
    if (!isDry) throw results;
    const lead = `${count(body.keys.length, "key was", "keys were")} read. Not all have the right form, so that none would go in.`;
    return { title: "Dry run", body: html`${reasons(results.errors.map(problemOf), lead, "")}${back}` };
  }
  const { migrated, failed } = results;
  const rows = failed.map(({ hash, reason, message }): Part[] => [code(hash), reason, message]);
  const list = table("Failed", ["Hash", "Reason", "What is wrong"], rows, "");
  const [went, fail] = isDry ? ["would go in", "would fail; nothing was stored"] : ["imported", "failed"];
  return {
    title: isDry ? "Dry run" : "Imported",
    body: html`${reasons(
      failed.map(({ reason }) => reason),
      `${count(migrated.length, "key")} ${went}, ${number(failed.length)} ${fail}.`,
      isDry ? "None would fail." : "None failed.",
    )}
      ${failed.length > 0 && html`<details class="ks-below"><summary>Which ${isDry ? "would fail" : "failed"}</summary>${list}</details>`}${back}`,
  };
}

/** The operation takes times in seconds and microseconds, as the contract has it. */
async function migrate(ask: Ask, body: { readonly keys: readonly Json[] }) {
  const late = body.keys.flatMap((key, i) =>
    wrongTimesInKey(key).map(({ name, message, fix }) => ({ location: `body.keys[${i}].${name}`, message, fix })),
  );
  refuseProblems(late, NEEDS, body);
  return ask(NEEDS, body);
}

/** Keys of the wrong form, which refuse a request as a whole; anything else is a fault of the page. */
function asInvalid(error: unknown): KeystileError {
  if (isKeystileError(error) && error.code === "BAD_REQUEST") return error;
  throw error;
}

const problemOf = ({ location, message }: ValidationProblem): string =>
  `${location.replace(/^body\.?(keys\[\d+\]\.?)?/, "")} ${message}`.trim();

/** Reasons with how often each was given. */
function reasons(all: readonly string[], lead: string, none: string): Html {
  const times = new Map<string, number>();
  for (const reason of all) times.set(reason, (times.get(reason) ?? 0) + 1);
  const rows = [...times].map(([reason, one]): Part[] => [reason, number(one)]);
  const columns = ["Reason", { title: "Times", isNumber: true }];
  return html`<p class="ks-lead">${lead}</p>${table("Reasons", columns, rows, none)}`;
}

function readKeys(text: string): readonly Json[] {
  try {
    const keys = JSON.parse(text) as Json;
    if (Array.isArray(keys)) return keys as readonly Json[];
  } catch {
    // Said below.
  }
  throw badRequest([{ location: "body.keys", message: "must be a JSON array of objects with a hash" }]);
}

/** The page of imports. */
export const importPages: readonly Page[] = [{ path: "/import", needs: NEEDS, show, act }];
