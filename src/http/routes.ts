/** Routes: exact path → operation or page (contract 9). */
import { KeystileError } from "../contracts/errors.js";
import type { Incoming, Outgoing } from "./messages.js";
import { OPERATIONS } from "./operations/index.js";
import type { Operation } from "./operations/operation.js";

/** A page: readable without a root key. */
export interface Page {
  /** For log and metrics; not the path, which clients choose. */
  readonly name: string;
  /** Whether it says how the service is, and so is answered however much others hold. */
  readonly isProbe: boolean;
  readonly read: (incoming: Incoming, requestId: string) => Promise<Outgoing> | Outgoing;
}

/** The handler of a path. */
export type Route = { readonly operation: Operation } | { readonly page: Page };

/** The routes by their exact path. */
export function createRoutes(pages: ReadonlyMap<string, Page>): ReadonlyMap<string, Route> {
  const routes = new Map<string, Route>();
  for (const operation of Object.values(OPERATIONS)) routes.set(`/v2/${operation.name}`, { operation });
  for (const [path, page] of pages) routes.set(path, { page });
  return routes;
}

const METHODS = { operation: ["POST"], page: ["GET", "HEAD"] } as const;

/** Methods that a route accepts. */
export function methodsOf(route: Route): readonly string[] {
  return "operation" in route ? METHODS.operation : METHODS.page;
}

/** The error of an unknown path (404). */
export const noSuchPath = (): KeystileError =>
  new KeystileError("NOT_FOUND", "there is nothing at this path; /docs lists what there is");
/** The error of another method than these (405). */
export const wrongMethod = (methods: readonly string[]): KeystileError =>
  new KeystileError("METHOD_NOT_ALLOWED", `this path takes ${methods.join(" or ")}`);
