import tseslint from "typescript-eslint";

/** No default exports: a thing has one name everywhere. Tools that demand one (config files) are excepted below. */
const NO_DEFAULT_EXPORTS = {
  "no-restricted-exports": [
    "error",
    { restrictDefaultExports: { direct: true, named: true, defaultFrom: true, namedFrom: true, namespaceFrom: true } },
  ],
};

export default tseslint.config(
  {
    ignores: [
      "dist/",
      "coverage/",
      ".cache/",
      "grammar/permission-query.js",
      "grammar/permission-query.d.ts",
      "examples/next/",
      "examples/vercel/",
    ],
  },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      ...NO_DEFAULT_EXPORTS,
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-var": "error",
      "prefer-const": "error",
      "no-param-reassign": "error",
      "no-console": "error",
      complexity: "off",
      "@typescript-eslint/consistent-type-imports": ["error", { disallowTypeAnnotations: false }],
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      // Stores and limiters are synchronous or not (MaybePromise): awaiting either is the point.
      "@typescript-eslint/await-thenable": "off",
      // Numbers read well in texts; everything else must be made a string on purpose.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      // `() => listeners.delete(x)` says it all; a body in braces says it in three lines.
      "@typescript-eslint/no-confusing-void-expression": [
        "error",
        { ignoreArrowShorthand: true, ignoreVoidReturningFunctions: true },
      ],
      // Public functions check what callers in plain JavaScript hand over, whatever the types say.
      "@typescript-eslint/no-unnecessary-condition": "off",
      "@typescript-eslint/no-unused-vars": [
        "error",
        { argsIgnorePattern: "^_", varsIgnorePattern: "^_", ignoreRestSiblings: true },
      ],
      // With `noUncheckedIndexedAccess`, `!` says that an index was checked just before.
      "@typescript-eslint/no-non-null-assertion": "off",
      // Objects here are closures: nothing uses `this`, so any method may be passed on.
      "@typescript-eslint/unbound-method": "off",
      // Spreading a text is how code points are counted (ruling G6).
      "@typescript-eslint/no-misused-spread": ["error", { allow: ["string"] }],
      // `void` also says that whatever a call answers is left alone.
      "@typescript-eslint/no-meaningless-void-operator": "off",
      // An async function promises that its faults arrive as rejections, whether or not it waits today.
      "@typescript-eslint/require-await": "off",
    },
  },
  {
    // Tests feed wrong types on purpose.
    files: ["test/**/*.ts"],
    rules: {
      "@typescript-eslint/no-dynamic-delete": "off",
      "@typescript-eslint/no-misused-spread": "off",
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-call": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-return": "off",
      "@typescript-eslint/no-confusing-void-expression": "off",
      "@typescript-eslint/no-invalid-void-type": "off",
    },
  },
  {
    // Programs that talk to a terminal.
    files: ["bench/**/*.ts", "examples/**/*.ts", "test/**/*.ts"],
    rules: { "no-console": "off" },
  },
  {
    // Modules of Nest are classes without members, and its options are typed as a class.
    files: ["examples/nest.ts", "test/middleware/*.ts"],
    rules: {
      "@typescript-eslint/no-extraneous-class": "off",
      "@typescript-eslint/no-unsafe-class-instance-assignment": "off",
    },
  },
  {
    files: ["*.config.ts"],
    rules: { "no-restricted-exports": "off" },
  },
);
