/** Bounds how many permissions an import makes. */
import { badRequest } from "../../contracts/errors.js";
import type { V2KeysMigrateKeyData } from "../../contracts/types.js";
import type { Context } from "../context.js";
import { PERMISSIONS, readIds } from "../rbac/resolve-names.js";
import { MAX_BATCH } from "../rows.js";

/**
 * Reads a thousand names at a time and stops at the first too many: a request that names 70,000 new ones took 100 ms.
 * @throws KeystileError BAD_REQUEST at `body.keys` if the keys name more permissions that do not exist
 */
export async function boundNew(context: Context, keys: readonly V2KeysMigrateKeyData[], most: number): Promise<void> {
  const seen = new Set<string>();
  let slugs: string[] = [];
  let unknown = 0;
  const count = async (): Promise<void> => {
    unknown += slugs.length - (await readIds(context, PERMISSIONS, slugs)).size;
    if (unknown > most) throw tooManyNew(most);
    slugs = [];
    await context.turns.next();
  };
  for (const { permissions = [] } of keys) {
    for (const slug of permissions) {
      if (seen.has(slug)) continue;
      seen.add(slug);
      slugs.push(slug);
      if (slugs.length === MAX_BATCH) await count();
    }
  }
  if (slugs.length > 0 && seen.size > most) await count();
}

function tooManyNew(most: number) {
  const message = `would make more than ${most} permissions that do not exist yet`;
  return badRequest([
    { location: "body.keys", message, fix: "send fewer keys at a time, or make the permissions first" },
  ]);
}
