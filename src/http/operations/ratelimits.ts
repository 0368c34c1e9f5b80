/** Operations `ratelimit.*`. Requests name a namespace by id or name, so access is checked where it is looked up. */
import type { RatelimitContext, Ratelimits } from "../../keyring/ratelimits/create-ratelimits.js";
import type { JsonSchema } from "../../keyring/schemas/json-schema.js";
import type { Schema } from "../../keyring/schemas/parse.js";
import * as schemas from "../../keyring/schemas/service.js";
import { formsOf, type FurtherPermission, onAll } from "./access.js";
import { define, type Operation } from "./operation.js";
import * as answer from "./responses.js";

interface RatelimitOperation<B> {
  readonly name: string;
  readonly summary: string;
  readonly action: string;
  readonly schema: Schema<B>;
  readonly answer: JsonSchema;
  readonly isList?: boolean;
  readonly also?: readonly FurtherPermission[];
  readonly act: (ratelimits: Ratelimits, request: B, context: RatelimitContext) => Promise<unknown>;
}

function ratelimitOperation<B>({
  name,
  summary,
  action,
  schema,
  answer,
  isList = false,
  also = [],
  act,
}: RatelimitOperation<B>): Operation {
  const permissions = formsOf(action, "ratelimit", "namespace_id");
  return define({
    name: `ratelimit.${name}`,
    summary,
    schema,
    answer,
    isList,
    access: { action, type: "ratelimit", permissions, also, allow() {} },
    act: ({ ratelimits }, request, caller) => act(ratelimits, request, { caller }),
  });
}

/** Operations that create a namespace that does not exist also need this. */
const createNamespacePermission: readonly FurtherPermission[] = [
  { permission: "ratelimit.*.create_namespace", where: "the namespace does not exist yet" },
];

/** Rate limits of any identifier, by namespace. */
export const ratelimits = [
  define({
    name: "ratelimit.listNamespaces",
    summary: "Lists the namespaces with their ids, which permissions on one namespace name.",
    schema: schemas.listNamespaces,
    answer: answer.namespace,
    isList: true,
    access: onAll("read_namespace", "ratelimit"),
    statuses: [],
    act: ({ ratelimits }, request, caller) => ratelimits.listNamespaces(request, { caller }),
  }),
  ratelimitOperation({
    name: "limit",
    summary: "Takes tokens of one identifier; a namespace that does not exist is made.",
    action: "limit",
    schema: schemas.limit,
    answer: answer.limited,
    also: createNamespacePermission,
    act: (ratelimits, request, context) => ratelimits.limit(request, context),
  }),
  ratelimitOperation({
    name: "multiLimit",
    summary: "Takes tokens of several identifiers in one step, all or nothing.",
    action: "limit",
    schema: schemas.multiLimit,
    answer: answer.multiLimited,
    also: createNamespacePermission,
    act: (ratelimits, request, context) => ratelimits.multiLimit(request, context),
  }),
  ratelimitOperation({
    name: "setOverride",
    summary: "Gives an identifier, or all that one with * stands for, another limit, from the next check on.",
    action: "set_override",
    schema: schemas.setOverride,
    answer: answer.createdOverride,
    also: createNamespacePermission,
    act: (ratelimits, request, context) => ratelimits.setOverride(request, context),
  }),
  ratelimitOperation({
    name: "getOverride",
    summary: "Shows the override of an identifier.",
    action: "read_override",
    schema: schemas.getOverride,
    answer: answer.override,
    act: (ratelimits, request, context) => ratelimits.getOverride(request, context),
  }),
  ratelimitOperation({
    name: "listOverrides",
    summary: "Lists the overrides of a namespace, by id, 10 a page unless asked otherwise.",
    action: "read_override",
    schema: schemas.listOverrides,
    answer: answer.override,
    isList: true,
    act: (ratelimits, request, context) => ratelimits.listOverrides(request, context),
  }),
  ratelimitOperation({
    name: "deleteOverride",
    summary: "Removes the override of an identifier.",
    action: "delete_override",
    schema: schemas.getOverride,
    answer: answer.empty,
    act: (ratelimits, request, context) => ratelimits.deleteOverride(request, context),
  }),
];
