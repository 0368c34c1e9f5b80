/** What `worker/` uses of the platform's types, of which `npx wrangler types` writes all in a project of your own. */
declare module "cloudflare:workers" {
  export const env: object;
  export abstract class DurableObject<Env = unknown> {
    protected readonly env: Env;
    constructor(state: object, env: Env);
  }
}
