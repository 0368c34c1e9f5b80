/** Operations `ratelimit.*`. Requests name a namespace by id or name, so access is checked where it is looked up. */
import { limit, multiLimit } from "../../keyring/ratelimits/limit.js";
import { listNamespaces } from "../../keyring/ratelimits/namespaces.js";
import * as overrides from "../../keyring/ratelimits/overrides.js";
import type * as A from "../../keyring/schemas/responses.js";
import { type Access, formsOf, type FurtherPermission, onAll } from "./access.js";
import { group } from "./operation.js";
import { arrayOf, flag, id, integer, object, text } from "./responses.js";

const define = group("ratelimit", ({ ratelimits }) => ratelimits);

/** The operation checks it. */
const inNamespace = (action: string, ...also: readonly FurtherPermission[]): Access<unknown> => ({
  action,
  type: "ratelimit",
  permissions: formsOf(action, "ratelimit", "namespace_id"),
  also,
  allow() {},
});

/** Operations that create a namespace that does not exist also need this. */
const createNamespace = { permission: "ratelimit.*.create_namespace", where: "the namespace does not exist yet" };

const counted = { limit: integer(0), remaining: integer(0), reset: integer(0) };
const override = object<A.RatelimitOverride>({
  overrideId: text,
  duration: integer(1_000),
  identifier: text,
  limit: integer(0),
});

/** Rate limits of any identifier, by namespace. */
export const ratelimitOperations = [
  define(listNamespaces, {
    summary: "Lists the namespaces with their ids, which permissions on one namespace name.",
    answer: object<A.NamespaceData>({ id, name: text }),
    isList: true,
    access: onAll("read_namespace", "ratelimit"),
    statuses: [],
  }),
  define(limit, {
    summary: "Takes tokens of one identifier; a namespace that does not exist is made.",
    answer: object<A.V2RatelimitLimitResponseData>({ ...counted, success: flag }, { overrideId: text }),
    access: inNamespace("limit", createNamespace),
  }),
  define(multiLimit, {
    summary: "Takes tokens of several identifiers in one step, all or nothing.",
    answer: object<A.V2RatelimitMultiLimitResponseData>({
      passed: flag,
      limits: arrayOf(
        object<A.V2RatelimitMultiLimitCheck>(
          { namespace: text, identifier: text, ...counted, passed: flag },
          { overrideId: text },
        ),
      ),
    }),
    access: inNamespace("limit", createNamespace),
  }),
  define(overrides.setOverride, {
    summary: "Gives an identifier, or all that one with * stands for, another limit, from the next check on.",
    answer: object<A.V2RatelimitSetOverrideResponseData>({ overrideId: text }),
    access: inNamespace("set_override", createNamespace),
  }),
  define(overrides.getOverride, {
    summary: "Shows the override of an identifier.",
    answer: override,
    access: inNamespace("read_override"),
  }),
  define(overrides.listOverrides, {
    summary: "Lists the overrides of a namespace, by id, 10 a page unless asked otherwise.",
    answer: override,
    isList: true,
    access: inNamespace("read_override"),
  }),
  define(overrides.deleteOverride, {
    summary: "Removes the override of an identifier.",
    access: inNamespace("delete_override"),
  }),
];
