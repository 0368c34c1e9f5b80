/** What is used of the platform's types. `npx wrangler types` writes them all, in place of this file. */
declare module "cloudflare:workers" {
  export const env: object;
  export abstract class DurableObject<Env = unknown> {
    protected readonly env: Env;
    constructor(state: object, env: Env);
  }
}
