/** Paths → what answers there. Spec §9, ruling G1. The operations are those of the table; nothing of them is said here. */
import { KeystileError } from "../contracts/errors.js";
import type { Incoming, Outgoing } from "./messages.js";
import { OPERATIONS } from "./operations/index.js";
import type { Operation } from "./operations/operation.js";

/** A page: something to read that takes no caller. */
export interface Page {
  /** For the log; never the path, which anyone can make up. */
  readonly name: string;
  readonly read: (incoming: Incoming, requestId: string) => Promise<Outgoing> | Outgoing;
}

/** What answers at a path. */
export type Route = { readonly operation: Operation } | { readonly page: Page };

/** The routes by their exact path. */
export function createRoutes(pages: ReadonlyMap<string, Page>): ReadonlyMap<string, Route> {
  const routes = new Map<string, Route>();
  for (const operation of Object.values(OPERATIONS)) routes.set(`/v2/${operation.name}`, { operation });
  for (const [path, page] of pages) routes.set(path, { page });
  return routes;
}

const METHODS = { operation: ["POST"], page: ["GET", "HEAD"] } as const;

/** Methods that a route answers. */
export function methodsOf(route: Route): readonly string[] {
  return "operation" in route ? METHODS.operation : METHODS.page;
}

/** The 404 of a path. */
export const noSuchPath = (): KeystileError =>
  new KeystileError("NOT_FOUND", "there is nothing at this path; /docs lists what there is");
/** The 405 of a path that takes these methods. */
export const wrongMethod = (methods: readonly string[]): KeystileError =>
  new KeystileError("METHOD_NOT_ALLOWED", `this path takes ${methods.join(" or ")}`);
