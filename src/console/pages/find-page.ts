/** The pages of the console by their paths. */
import type { Page } from "../view/view.js";
import { apiPages } from "./first-run.js";
import { auditPages } from "./audit.js";
import { healthPages } from "./health.js";
import { importPages } from "./import.js";
import { keyListPages } from "./keys.js";
import { keyPages } from "./key.js";
import { limitPages } from "./limits.js";
import { overviewPages } from "./overview.js";
import { ownerPages } from "./owners.js";
import { queryPages } from "./query.js";
import { rolePages } from "./roles.js";
import { stopPages } from "./stop.js";
import { rootKeyPages } from "./root-keys.js";
import { statementPages } from "./statement.js";

/** In order: the first that fits. `/keys/find`, `/keys/new` and `/keys/stop` are before `/keys/:id`. */
export const PAGES: readonly Page[] = [
  ...overviewPages,
  ...apiPages,
  ...keyListPages,
  ...stopPages,
  ...keyPages,
  ...ownerPages,
  ...statementPages,
  ...rolePages,
  ...limitPages,
  ...importPages,
  ...queryPages,
  ...auditPages,
  ...rootKeyPages,
  ...healthPages,
];

/** The page of a path, with what stands for `:id` in it. */
export function findPage(path: string): { readonly page: Page; readonly id: string } | undefined {
  const asked = path.split("/");
  for (const page of PAGES) {
    const parts = page.path.split("/");
    if (parts.length !== asked.length) continue;
    if (!parts.every((part, i) => part === asked[i] || (part.startsWith(":") && asked[i] !== ""))) continue;
    const at = parts.indexOf(":id");
    const id = at < 0 ? "" : decode(asked[at] as string);
    if (id !== undefined) return { page, id };
  }
  return undefined;
}

function decode(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
