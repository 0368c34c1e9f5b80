/** The step from which on totals say whether an account was a cap. It never changes once released. */
import { GRANT_DAYS } from "./grant-days-step.js";
import { ownerOf } from "./outcomes-sql.js";
import { type Change, changed } from "./refills-sql.js";
import { fieldOf } from "./texts.js";

/** Whether the identity has credits, and the key's own are not all that it draws on. */
const isCap = (s: string): string => `(i.account IS NOT NULL AND ${fieldOf("k", "creditsFrom")} IS NULL
        AND EXISTS (SELECT 1 FROM ${s}.accounts o WHERE o.number = i.account AND NOT o.unlimited))::integer`;

const OF_KEEP = (s: string): readonly Change[] => {
  const owner = ownerOf(s, "g.main", "i.kind = 'identities' AND i.account = g.main");
  return [
    ["o.ws, o.name, l.seq", "o.ws, o.name, coalesce(o.cap, 0) AS cap, l.seq"],
    [
      "l.external_id IS NOT DISTINCT FROM o.name AS is_same",
      "l.external_id IS NOT DISTINCT FROM o.name AND l.is_cap = coalesce(o.cap, 0) AS is_same",
    ],
    [
      owner,
      owner
        .replace("AS name FROM", () => `AS name, ${isCap(s)} AS cap FROM`)
        .replace("coalesce(i.name, '') FROM", () => `coalesce(i.name, ''), ${isCap(s)} FROM`)
        .replace("i.name FROM", "i.name, 0 FROM"),
    ],
    ["e.external_id IS DISTINCT FROM k.name)", "(e.external_id IS DISTINCT FROM k.name OR e.is_cap <> k.cap))"],
    ["workspace_id, external_id, ", "workspace_id, external_id, is_cap, "],
    ["p.ws, p.name,", "p.ws, p.name, p.cap,"],
  ];
};

/** The function as the step before made it, in a form that {@link changed} finds. */
const before = (s: string): string => GRANT_DAYS.up(s).replaceAll("CREATE OR REPLACE", "CREATE");

/** The step. */
export const CAPPED_DAYS = {
  up: (s: string): string => `
ALTER TABLE ${s}.credit_days ADD COLUMN is_cap bigint NOT NULL DEFAULT 0;
${changed(before(s), s, "keep_totals_v1", OF_KEEP(s))}`,
  down: (s: string): string => `
${changed(before(s), s, "keep_totals_v1", [])}
ALTER TABLE ${s}.credit_days DROP COLUMN is_cap;`,
  refuses: {},
};
