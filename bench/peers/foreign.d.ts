/**
 * What is used of packages that are installed in this folder alone: the checks of the whole tree must not need them.
 */

declare module "better-auth" {
  interface Adapter {
    create(query: { model: string; data: Record<string, unknown> }): Promise<{ id: string }>;
    findOne(query: {
      model: string;
      where: { field: string; value: unknown }[];
    }): Promise<Record<string, unknown> | null>;
  }
  export interface Auth {
    readonly options: object;
    readonly $context: Promise<{ adapter: Adapter }>;
    readonly api: {
      createApiKey(call: { body: object }): Promise<{ id: string; key: string }>;
      verifyApiKey(call: { body: object }): Promise<{ valid: boolean }>;
    };
  }
  export function betterAuth(options: object): Auth;
}

declare module "better-auth/adapters/memory" {
  export function memoryAdapter(tables: Record<string, unknown[]>): object;
}

declare module "better-auth/db/migration" {
  export function getMigrations(options: object): Promise<{ runMigrations(): Promise<void> }>;
}

declare module "@better-auth/api-key" {
  export function apiKey(options: { customKeyGenerator: () => string }): object;
}

declare module "rate-limiter-flexible" {
  export class RateLimiterMemory {
    /** @param options `duration` in seconds */
    constructor(options: { points: number; duration: number });
    /** Rejects when no point is left. */
    consume(key: string): Promise<unknown>;
  }
  interface SharedOptions {
    storeClient: object;
    points: number;
    /** In seconds. */
    duration: number;
    keyPrefix: string;
  }
  export interface SharedLimiter {
    /** Rejects when no point is left; with an Error when the server fails. */
    consume(key: string): Promise<unknown>;
    get(key: string): Promise<{ remainingPoints: number } | null>;
  }
  export const RateLimiterRedis: new (options: SharedOptions) => SharedLimiter;
  /** `ready` is called when its table is there, or cannot be made. */
  export const RateLimiterPostgres: new (options: SharedOptions, ready: (error?: Error) => void) => SharedLimiter;
}

declare module "limiter" {
  export class RateLimiter {
    /** @param options `interval` in milliseconds */
    constructor(options: { tokensPerInterval: number; interval: number });
    tryRemoveTokens(count: number): boolean;
  }
}

declare module "fast-jwt" {
  /** @param options `expiresIn` in milliseconds */
  export function createSigner(options: {
    algorithm: "HS256";
    key: string;
    expiresIn: number;
  }): (payload: object) => string;
  export function createVerifier(options: {
    algorithms: ["HS256"];
    key: string;
    cache: number | false;
  }): (token: string) => object;
}

declare module "casbin" {
  export interface Enforcer {
    addPolicies(rules: string[][]): Promise<boolean>;
    addGroupingPolicies(rules: string[][]): Promise<boolean>;
    enforceSync(...request: string[]): boolean;
  }
  export interface Model {
    readonly brand: unique symbol;
  }
  export function newModelFromString(text: string): Model;
  export function newEnforcer(model: Model): Promise<Enforcer>;
}

declare module "@casl/ability" {
  export interface Ability {
    can(action: string, subject: string): boolean;
  }
  export function createMongoAbility(rules: { action: string; subject: string }[]): Ability;
}
