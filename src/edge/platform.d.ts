/** The platform's module, of which the base class of objects is all that is used. */
declare module "cloudflare:workers" {
  export abstract class DurableObject<Env = unknown> {
    protected readonly env: Env;
    constructor(state: object, env: Env);
  }
}
