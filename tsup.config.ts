import { defineConfig, type Options } from "tsup";

const LIBRARY = {
  index: "src/index.ts",
  sqlite: "src/stores/sqlite/index.ts",
  postgres: "src/stores/postgres/index.ts",
  redis: "src/ratelimit/redis/index.ts",
  "durable-object": "src/edge/index.ts",
  http: "src/http/index.ts",
  console: "src/console/index.ts",
  portal: "src/portal/index.ts",
  testing: "src/testing/index.ts",
  "store-kit": "src/stores/kit.ts",
  express: "src/middleware/express.ts",
  hono: "src/middleware/hono.ts",
  fastify: "src/middleware/fastify.ts",
  web: "src/middleware/web.ts",
  nest: "src/middleware/nest.ts",
  trpc: "src/middleware/trpc.ts",
  otel: "src/otel/otel.ts",
  // The program of the writer thread: started by its path, never imported.
  "sqlite-writer": "src/stores/sqlite/writer/worker.ts",
};

/** Entries that nobody imports: a program bundled from ES modules goes without the parts that it does not use. */
const PARTS = {
  verifier: "src/verify/verifier.ts",
  keyring: "src/keyring/keyring.ts",
  alerts: "src/alerts/alerts.ts",
  owner: "src/keyring/owner/owner-keys.ts",
};

const COMMON: Options = {
  // Neutral: `keystile` must load in any runtime, so nothing of Node may be put in behind its back.
  platform: "neutral",
  target: "node20",
  external: [/^node:/, /^cloudflare:/],
  removeNodeProtocol: false,
  // Split in both formats: all entries share one KeystileError.
  splitting: true,
  // Rollup writes the chunks. Without it tsup splits CommonJS through a rewriter that turns every `?.` and `??` into calls.
  treeshake: true,
  // The two run side by side; `npm run build` empties dist before.
  clean: false,
  // Left out: they were two thirds of the package.
  sourcemap: false,
  // A tenth of the package. Names stay, and lines stay short, so that a stack trace says where it was.
  minifyWhitespace: true,
  minifySyntax: true,
};
const LINE_LENGTH = 160;

/** Suites of tests, and the program of a thread, are there once: `tsup.finish.ts` writes their ES modules. */
const { testing: _, "sqlite-writer": __, ...ES_LIBRARY } = LIBRARY;

/** Where `npm run declarations` puts those of each entry. Made by tsup itself, with TypeScript 5, they took 44 s, not 8. */
const DECLARED = Object.fromEntries(
  Object.entries(LIBRARY).map(([name, source]) => [name, `.cache/declarations/${source.replace(/\.ts$/, ".d.ts")}`]),
);

export default defineConfig([
  {
    ...COMMON,
    format: "esm",
    entry: { ...ES_LIBRARY, ...PARTS, cli: "src/cli/bin.ts" },
    esbuildOptions(options) {
      options.lineLimit = LINE_LENGTH;
    },
  },
  {
    ...COMMON,
    format: "cjs",
    entry: LIBRARY,
    dts: { entry: DECLARED },
    // It comes as ESM alone, which Node before 20.19 cannot require.
    noExternal: ["jose"],
    esbuildOptions(options) {
      options.lineLimit = LINE_LENGTH;
      // Its one use is `createRequire`, which takes a path as well. tsup's own shim breaks on paths with `#` or `%`.
      options.define = { ...options.define, "import.meta.url": "__filename" };
    },
  },
]);
