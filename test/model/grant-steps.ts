/** Steps that change what a key may do and what it has: permissions, roles, credits. */
import type { V2KeysUpdateCreditsRequestBody } from "../../src/index.js";
import { createKey } from "./key-steps.js";
import { chosen } from "./key-rolls.js";
import { add } from "./naive-credits.js";
import { rolesOf, showCredits, slugsOf } from "./read-steps.js";
import { ensurePermissions, existingPermissions, existingRoles, rollRoles } from "./reference-steps.js";
import { refused, same, type Stage } from "./stage.js";
import { GRANTS, rollRemaining } from "./vocabulary.js";
import { setCredits } from "./world.js";

export async function updateCredits(stage: Stage): Promise<void> {
  const { world, dice } = stage;
  const target = chosen(stage);
  if (target === undefined) return createKey(stage);
  const { key, keyring, absent } = target;
  const operation = dice.pick(["set", "increment", "decrement"] as const);
  const value = operation === "set" ? rollRemaining(dice) : dice.pick([0, 1, 3, 100, Number.MAX_SAFE_INTEGER]);
  const body = { keyId: key.id, operation, value } as V2KeysUpdateCreditsRequestBody;
  stage.note("updateCredits", body);
  if (absent) return refused("updateCredits", keyring.updateCredits(body), "NOT_FOUND");
  if (operation !== "set" && key.credits.remaining === null) {
    return refused("updateCredits", keyring.updateCredits(body), "BAD_REQUEST", ["body.operation"]);
  }
  const answer = await keyring.updateCredits(body);
  if (operation === "set") setCredits(world, key, { remaining: value });
  else add(key.credits, operation === "increment" ? value! : -value!, world.now);
  same("updateCredits", answer, showCredits(key.credits, world.now));
}

/** Permissions and roles of a key: add, remove, set. */
export async function changeGrants(stage: Stage): Promise<void> {
  const { dice } = stage;
  const target = chosen(stage);
  if (target === undefined) return createKey(stage);
  const { key, keyring, absent } = target;
  const { workspace } = key.api;
  const how = dice.pick(["add", "remove", "set"] as const);
  if (dice.chance(0.5)) {
    const slugs = dice.some(GRANTS, 0.2);
    if (slugs.length === 0 && how !== "set") slugs.push("docs.read");
    stage.note(`${how}Permissions`, key.id, slugs);
    const call = keyring[`${how}Permissions`]({ keyId: key.id, permissions: slugs });
    // Whatever the key does not hold, but the workspace must know it.
    const known = how === "remove" ? existingPermissions(workspace, slugs) : [];
    if (absent || known === undefined) return refused("changeGrants", call, "NOT_FOUND");
    const answer = await call;
    const rows = how === "remove" ? known : ensurePermissions(workspace, slugs);
    if (how === "set") key.permissions = new Set(rows);
    else for (const row of rows) key.permissions[how === "add" ? "add" : "delete"](row);
    return same(
      "changeGrants",
      answer.map(({ slug }) => slug),
      slugsOf(key),
    );
  }
  const names = rollRoles(dice);
  if (names.length === 0 && how !== "set") names.push("reader");
  stage.note(`${how}Roles`, key.id, names);
  const call = keyring[`${how}Roles`]({ keyId: key.id, roles: names });
  const rows = existingRoles(workspace, names);
  if (absent || rows === undefined) return refused("changeGrants", call, "NOT_FOUND");
  const answer = await call;
  if (how === "set") key.roles = new Set(rows);
  else for (const row of rows) key.roles[how === "add" ? "add" : "delete"](row);
  same(
    "changeGrants",
    answer.map(({ name }) => name),
    rolesOf(key),
  );
}
