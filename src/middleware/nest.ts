/**
 * The entry point `keystile/nest`: guard, decorators and module for NestJS on Express or Fastify.
 * @module keystile/nest
 */
import { type ApiKeyOptions, createGuard, type HeaderMap, type KeyVerifier, type VerifiedKey } from "./guard.js";
import { decide } from "./node.js";
import { type RefusalBody, type Refusal } from "./refusal.js";
import { checkRequirement, type KeyRequirement } from "./requirement.js";
import type { NodeResponse } from "./reserved.js";

export type { HeaderMap } from "./guard.js";
export { verifiedKey } from "./guard.js";
export type * from "./public-types.js";

/** Where decorators leave a requirement: on a controller's class, or on a handler's function. */
const REQUIREMENT = Symbol.for("keystile.requirement");
type Requirement = false | KeyRequirement<NestRequest>;

/** What is used of a request of Express or Fastify. */
export interface NestRequest {
  /** As Node has them. */
  readonly headers: HeaderMap;
  /** The client's address, as the platform finds it. */
  readonly ip?: string | undefined;
  /** Set when a key passed. */
  apiKey?: VerifiedKey;
}

/** What is used of a response of Express or Fastify. */
export interface NestResponse {
  /** A header that was set before. */
  getHeader(name: string): unknown;
  /** Sets a header. */
  header(name: string, value: string): unknown;
  /** Sets the status. */
  status(code: number): unknown;
  /** Sends the body. */
  send(body: string): unknown;
  /** Node's response, of Fastify. */
  readonly raw?: NodeResponse;
}

/** What is used of Nest's ExecutionContext and ArgumentsHost. */
export interface NestContext {
  /** `http` and `graphql` are guarded; other kinds are refused unless they have {@link NoApiKey}. */
  getType(): string;
  /** The handler's function. */
  getHandler(): object;
  /** The controller's class. */
  getClass(): object;
  /** An argument of the handler: the third one of a resolver is the context of GraphQL. */
  getArgByIndex(index: number): unknown;
  /** Request and response. */
  switchToHttp(): { getRequest(): unknown; getResponse(): unknown };
}

/** Thrown by the guard. Without the module's filter Nest responds with its status, and a body of Nest's own. */
export class ApiKeyRefused extends Error {
  /** HTTP status. */
  readonly statusCode: number;
  /** Of the error that GraphQL sends: the code of the refusal. */
  readonly extensions: { readonly code: string };
  constructor(
    /** What the client is told. */
    readonly refusal: Refusal,
    /** The body. */
    readonly rendered: RefusalBody,
  ) {
    super(refusal.detail);
    this.name = "ApiKeyRefused";
    this.statusCode = refusal.status;
    this.extensions = { code: refusal.code };
  }
}

const decorate = (requirement: Requirement) => (target: object, _name?: string | symbol, method?: PropertyDescriptor) =>
  void Object.defineProperty((method?.value as object | undefined) ?? target, REQUIREMENT, { value: requirement });

/**
 * Decorator of a controller or a handler: what it asks of a key. Requirements of guard, controller and handler are
 * merged before anything is taken. Put it next to the method: a decorator between the two that replaces the function
 * hides it.
 * @throws TypeError or RangeError that names the option, when the class is built
 */
export function RequireApiKey(requirement: KeyRequirement<NestRequest> = {}): ReturnType<typeof decorate> {
  return decorate(checkRequirement(requirement, "requirement"));
}

/** Decorator of a controller or a handler that needs no key, under a guard of the whole application. */
export function NoApiKey(): ReturnType<typeof decorate> {
  return decorate(false);
}

/**
 * Makes a guard for `@UseGuards(…)` or `app.useGlobalGuards(…)`; `request.apiKey` is the verified key. Every handler
 * under it needs a key, but those with {@link NoApiKey}.
 * @param verifier made by `createVerifier(store)`
 * @throws TypeError or RangeError that names the option. `canActivate` rejects with {@link ApiKeyRefused}
 */
export function createApiKeyGuard(
  verifier: KeyVerifier,
  options?: ApiKeyOptions<NestRequest>,
): { canActivate(context: NestContext): Promise<boolean> } {
  const guard = createGuard(verifier, options);
  return {
    async canActivate(context) {
      // Own properties, and those of base classes.
      const [ofClass, ofHandler] = [context.getClass(), context.getHandler()].map(
        (target) => (target as Record<symbol, Requirement | undefined>)[REQUIREMENT],
      );
      if ((ofHandler ?? ofClass) === false) return true;
      const inner = [ofClass, ofHandler].filter((requirement) => typeof requirement === "object");
      const { request, response } = endsOf(context);
      const answer = response && {
        get: (name: string) => response.getHeader(name),
        set: (name: string, value: string) => response.header(name, value),
        // Express' response is Node's.
        raw: response.raw ?? (response as unknown as NodeResponse),
      };
      const refused = await decide(guard, request, answer, () => inner);
      if (refused !== undefined) throw new ApiKeyRefused(refused.refusal, refused.rendered);
      return true;
    },
  };
}

/** What drivers of GraphQL put into its context. */
interface GraphqlContext {
  readonly req?: NestRequest & { readonly res?: NestResponse };
  readonly res?: NestResponse;
  readonly reply?: NestResponse & { readonly request?: NestRequest };
}

/** @throws TypeError for what is neither HTTP nor GraphQL, or a context of GraphQL without its request */
function endsOf(context: NestContext): { request: NestRequest; response: NestResponse | undefined } {
  const kind = context.getType();
  if (kind === "http") {
    const http = context.switchToHttp();
    return { request: http.getRequest() as NestRequest, response: http.getResponse() as NestResponse };
  }
  if (kind !== "graphql")
    throw new TypeError(
      `keystile/nest guards HTTP and GraphQL: give handlers of kind ${kind} @NoApiKey(), and verify their keys by verifyHeaders`,
    );
  const { req, res, reply } = (context.getArgByIndex(2) ?? {}) as GraphqlContext;
  const request = req ?? reply?.request;
  if (request === undefined)
    throw new TypeError("the context of GraphQL must have its request: context: ({ req, res }) => ({ req, res })");
  return { request, response: res ?? reply ?? req?.res };
}

/** Sends the body of an {@link ApiKeyRefused}; registered by {@link ApiKeyModule}. */
class RefusalFilter {
  catch(refused: ApiKeyRefused, host: Pick<NestContext, "getType" | "switchToHttp">): void {
    // GraphQL renders it, with `extensions`.
    if (host.getType() !== "http") throw refused;
    const { refusal, rendered } = refused;
    const response = host.switchToHttp().getResponse() as NestResponse;
    response.status(refusal.status);
    response.header("Content-Type", rendered.type);
    response.send(rendered.body);
  }
}

/** A module that guards every handler of the application. */
// oxlint-disable-next-line typescript/no-extraneous-class -- modules of Nest are classes
export class ApiKeyModule {
  /**
   * For `imports` of the root module: a guard of the whole application, and the filter that renders refusals.
   * @throws TypeError or RangeError that names the option
   * @example
   * \@Module({ imports: [ApiKeyModule.forRoot(verifier, { apiId })], controllers: [DocumentsController] })
   */
  static forRoot(verifier: KeyVerifier, options?: ApiKeyOptions<NestRequest>): NestModule {
    // What `@Catch(ApiKeyRefused)` does; Nest has loaded reflect-metadata.
    const { defineMetadata } = Reflect as unknown as Record<"defineMetadata", (...args: unknown[]) => void>;
    defineMetadata("__filterCatchExceptions__", [ApiKeyRefused], RefusalFilter);
    const guard = { provide: "APP_GUARD", useValue: createApiKeyGuard(verifier, options) };
    return { module: ApiKeyModule, providers: [guard, { provide: "APP_FILTER", useValue: new RefusalFilter() }] };
  }
}

/** A DynamicModule. */
export interface NestModule {
  /** The class. */
  module: typeof ApiKeyModule;
  /** Guard and filter of the application. */
  providers: { provide: string; useValue: object }[];
}
