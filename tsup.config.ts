import { defineConfig } from "tsup";

export default defineConfig({
  entry: { index: "src/index.ts", sqlite: "src/sqlite.ts" },
  format: ["esm", "cjs"],
  // Neutral: `keystile` must load in any runtime, so nothing of Node may be put in behind its back.
  platform: "neutral",
  target: "node20",
  external: [/^node:/],
  removeNodeProtocol: false,
  // Split in both formats: the two entries share one VerifierError.
  splitting: true,
  // Rollup writes the chunks. Without it tsup splits CommonJS through a rewriter that turns every `?.` and `??` into calls.
  treeshake: true,
  esbuildOptions(options, { format }) {
    // Its one use is `createRequire`, which takes a path as well. tsup's own shim breaks on paths with `#` or `%`.
    if (format === "cjs") options.define = { ...options.define, "import.meta.url": "__filename" };
  },
  dts: true,
  sourcemap: true,
  clean: true,
});
