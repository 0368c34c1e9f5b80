/** Pages that need no root key: liveness, readiness, metrics and the documentation. */
import { listProblemTypes } from "../../contracts/errors.js";
import type { Store } from "../../contracts/store.js";
import { toSuccess } from "../envelope.js";
import type { Outgoing } from "../messages.js";
import { OPERATIONS } from "../operations/index.js";
import type { Readiness } from "../readiness.js";
import type { Page } from "../routes.js";
import { errorPage, FILTER, indexPage, operationPage, startPage, STYLE } from "./html.js";
import { toOpenApi } from "./openapi.js";
import type { Operation } from "../operations/operation.js";

interface PageOptions {
  readonly store: Store;
  readonly readiness: Readiness;
  readonly docs: boolean;
  /** Path below which the service is mounted; empty: none. */
  readonly basePath: string;
  /** Text of `/metrics`; absent: not served. */
  readonly metrics: (() => Promise<string>) | undefined;
}

/** Pages load nothing from elsewhere. */
const POLICY =
  "default-src 'none'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML = "text/html; charset=utf-8";

/** The pages by path. */
export function createPages({ store, readiness, docs, basePath, metrics }: PageOptions): ReadonlyMap<string, Page> {
  /** The service is alive if it can read its store, and ready if that can be relied on: for load balancers. */
  const isAlive = async (): Promise<unknown> => {
    await store.pollChanges();
    return store.readMany("workspaces", ["liveness"]);
  };
  const pages = new Map([
    ["/v2/liveness", probe("liveness", isAlive)],
    ["/ready", probe("ready", () => readiness.assertReady())],
  ]);
  if (metrics !== undefined) {
    const read = async (_incoming: unknown, requestId: string): Promise<Outgoing> =>
      asText("text/plain; version=0.0.4; charset=utf-8", await metrics(), requestId);
    pages.set("/metrics", { name: "metrics", isProbe: true, read });
  }
  if (!docs) return pages;
  const add = (path: string, type: string, write: () => string, name = "docs"): void =>
    void pages.set(path, constantPage(name, type, write));
  add("/", HTML, () => startPage(basePath));
  add("/openapi.json", "application/json", () => toOpenApi(basePath), "openapi");
  for (const path of ["/docs", "/docs/"]) add(path, HTML, () => indexPage(groupOperations(), basePath));
  add("/docs/style.css", "text/css; charset=utf-8", () => STYLE);
  add("/docs/filter.js", "text/javascript; charset=utf-8", () => FILTER);
  for (const operation of Object.values(OPERATIONS))
    add(`/docs/${operation.name}`, HTML, () => operationPage(operation, basePath));
  for (const problem of listProblemTypes())
    add(`/docs/errors/${problem.type}`, HTML, () => errorPage(problem, basePath));
  return pages;
}

/** A page that says OK, and no more than that. @param assert rejects where it is not */
function probe(name: string, assert: () => Promise<unknown>): Page {
  return {
    ...{ name, isProbe: true },
    async read(_incoming, requestId) {
      await assert();
      return toSuccess(requestId, { message: "OK" }, []);
    },
  };
}

/** A constant page, rendered on first use. */
function constantPage(name: string, type: string, write: () => string): Page {
  let text: string | undefined;
  return { name, isProbe: false, read: (_incoming, requestId) => asText(type, (text ??= write()), requestId) };
}

function asText(type: string, text: string, requestId: string): Outgoing {
  const headers = ["content-type", type, "content-security-policy", POLICY, "x-content-type-options", "nosniff"];
  return { status: 200, headers: [...headers, "referrer-policy", "no-referrer", "x-request-id", requestId], text };
}

/* The operations in groups, as people look for them: in the documentation. */

/** Beginnings of names by group; an operation is in the first that fits. */
const BEGINNINGS: Readonly<Record<string, readonly string[]>> = {
  Verifying: ["keys.verifyKey", "keys.explainKey", "keys.whoami", "ratelimit.limit", "ratelimit.multiLimit"],
  Keys: ["keys."],
  "APIs and owners": ["apis.", "identities."],
  "Permissions and roles": ["permissions."],
  "Rate limits": ["ratelimit."],
  "Usage, audit and callers": ["analytics.", "audit.", "rootKeys.", "callers.", "workspace."],
};

/** Each operation once, by the title of its group. */
function groupOperations(): ReadonlyMap<string, readonly Operation[]> {
  const groups = new Map<string, Operation[]>();
  const left = new Set(Object.values(OPERATIONS));
  for (const [title, beginnings] of Object.entries(BEGINNINGS)) {
    const members = [...left].filter(({ name }) => beginnings.some((beginning) => name.startsWith(beginning)));
    groups.set(title, members);
    for (const member of members) left.delete(member);
  }
  return groups;
}
