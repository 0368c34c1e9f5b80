/**
 * Which folder of `src` may import which, and where packages come in; finds what breaks it. No other file repeats these
 * tables.
 */
import type { Source } from "./source.js";

/**
 * Folder or module → what it may import besides itself: folders, or single modules. A file belongs to the longest entry
 * that it is in.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  contracts: [],
  lib: ["contracts"],
  access: ["contracts", "lib", "grammar"],
  ratelimit: ["contracts", "lib"],
  "ratelimit/redis": ["contracts", "lib", "ratelimit/memory/bucket"],
  credits: ["contracts", "lib"],
  cache: ["contracts", "lib", "access", "ratelimit", "credits"],
  verify: [
    "contracts",
    "lib",
    "access",
    "ratelimit",
    "credits",
    "cache/key-cache",
    "cache/cached-key",
    "keyring/used-up-grants",
  ],
  analytics: ["contracts", "lib"],
  keyring: ["contracts", "lib", "access", "ratelimit", "credits", "analytics/query", "analytics/rows"],
  alerts: [
    "contracts",
    "lib",
    "analytics/rows",
    "keyring/context",
    "keyring/granted",
    "keyring/rows",
    "keyring/keys/account-keys",
    "keyring/keys/key-response",
    "keyring/keys/slicing",
  ],
  stores: ["contracts", "lib", "credits/account", "credits/wallet"],
  "stores/sqlite": [
    "contracts",
    "lib",
    "credits/account",
    "credits/wallet",
    "ratelimit/memory/bucket",
    "ratelimit/memory/taking",
    "stores",
  ],
  "stores/durable-object": ["contracts", "lib", "stores/sqlite"],
  "stores/postgres": ["contracts", "lib", "credits/account", "credits/wallet", "stores"],
  "stores/kit": ["contracts/row-changes", "lib", "credits/account", "credits/refill-calendar", "stores"],
  testing: ["contracts", "lib/hash"],
  http: ["contracts", "lib", "access", "ratelimit", "verify", "analytics", "keyring"],
  "http/node": ["contracts", "lib", "http"],
  "http/index": ["access", "http", "http/node"],
  otel: ["contracts", "lib", "verify"],
  view: ["contracts", "lib", "http"],
  console: [
    "view",
    "contracts",
    "lib",
    "access",
    "ratelimit/memory/limiter",
    "credits/refill-calendar",
    "verify",
    "analytics",
    "keyring",
    "http",
  ],
  portal: ["contracts", "lib", "analytics", "keyring", "http", "view"],
  "portal/listener": ["keyring/keyring", "http/node", "portal"],
  "portal/index": ["portal", "portal/listener", "http", "http/node"],
  "console/listener": ["contracts", "lib/loopback", "console", "http", "http/node"],
  "console/index": ["console", "console/listener", "http", "http/node"],
  middleware: ["contracts", "lib", "access/permission-query", "verify"],
  edge: ["contracts", "lib", "alerts", "access/permission-query", "verify", "keyring", "stores/durable-object", "http"],
  "edge/index": ["contracts", "edge", "stores/durable-object", "stores/sqlite"],
  cli: [
    "contracts",
    "lib",
    "analytics",
    "keyring",
    "ratelimit/redis",
    "stores/sqlite",
    "stores/postgres",
    "stores",
    "credits/account",
    "verify/verifier",
    "http",
    "http/index",
    "console/index",
  ],
  index: [
    "contracts",
    "lib",
    "alerts",
    "analytics",
    "ratelimit",
    "credits",
    "cache/key-cache",
    "verify",
    "keyring",
    "stores",
  ],
  grammar: [],
};

/** Packages, Node's modules and the generated parser, each with where it may be imported. */
const PACKAGES: readonly (readonly [name: RegExp, importers: RegExp])[] = [
  [/^node:crypto$/, /^lib\/hash$/],
  [/^node:/, /^(stores\/sqlite\/(backup|connection|writer)\/|cli\/|http\/node\/)/],
  [/^cloudflare:workers$/, /^edge\/object$/],
  [/^pg$/, /^cli\/database\/postgres$/],
  [/^better-sqlite3/, /^stores\/sqlite\/connection\/driver$/],
  [/^lru-cache$/, /^lib\/growing-lru$/],
  [/^jose$/, /^access\/proxy-token$/],
  [/^valibot$/, /^keyring\/schemas\//],
  [/^commander$/, /^cli\//],
  [/^(ioredis|redis)$/, /^cli\/redis-client$/],
  // Their types alone: at run time a framework is whatever the program hands over.
  [/^fastify$/, /^middleware\/fastify$/],
  [/^hono$/, /^middleware\/hono$/],
  [/^@trpc\/server$/, /^middleware\/trpc$/],
  [/^@opentelemetry\/api$/, /^otel\/otel$/],
  [/^grammar\//, /^access\/permission-query$/],
];

/** Names that only Node knows: elsewhere they would keep a module from loading in other runtimes. */
const NODE_NAMES = ["process", "Buffer", "require", "__dirname", "__filename", "setImmediate", "global"];
const NODE_MODULES = /^(lib\/hash$|stores\/sqlite\/|cli\/|http\/node\/)/;

const FRAMEWORKS = ["express", "hono", "fastify", "web", "nest", "trpc"].map((name) => `middleware/${name}`);

/** Entry points alone pass on what others export, and the types that those of all frameworks share. */
const ENTRY_POINTS = [
  "index",
  "stores/sqlite/index",
  "stores/postgres/index",
  "edge/index",
  "ratelimit/redis/index",
  "http/index",
  "console/index",
  "portal/index",
  "stores/kit",
  "testing/index",
  ...FRAMEWORKS,
  "middleware/public-types",
];

/** `src/lib/hash.ts` → `lib/hash`; `grammar/permission-query.ts` keeps its folder. */
const moduleOf = (path: string): string => path.replace(/^src\//, "").replace(/\.ts$/, "");

const isIn = (module: string, entry: string): boolean => module === entry || module.startsWith(`${entry}/`);

/** The entry of the table that a module belongs to. */
function layerOf(module: string): string | undefined {
  const entries = Object.keys(MAY_IMPORT).filter((entry) => isIn(module, entry));
  return entries.sort((a, b) => b.length - a.length)[0];
}

/** Everything in `sources` that breaks a rule, in words. */
export function findFaults(sources: readonly Source[]): string[] {
  return [...sources.flatMap(faultsOf), ...findCycles(sources).map((cycle) => `cycle: ${cycle.join(" → ")}`)];
}

/** Arrows of the table that no import needs. @param sources all of `src` */
export function findUnusedArrows(sources: readonly Source[]): string[] {
  const used = new Set(
    sources.flatMap(({ path, imports }) => imports.map((target) => arrowOf(moduleOf(path), moduleOf(target)))),
  );
  const arrows = Object.entries(MAY_IMPORT).flatMap(([layer, targets]) =>
    targets.map((target) => `${layer} → ${target}`),
  );
  return arrows.filter((arrow) => !used.has(arrow));
}

/** The arrow of the table that allows an import; undefined: none does. */
function arrowOf(module: string, target: string): string | undefined {
  const layer = layerOf(module);
  const there = layerOf(target);
  if (layer === undefined || there === undefined) return undefined;
  const allowed = MAY_IMPORT[layer]?.find((entry) => entry === there || entry === target);
  return allowed === undefined ? undefined : `${layer} → ${allowed}`;
}

function faultsOf(source: Source): string[] {
  const { path } = source;
  const module = moduleOf(path);
  if (layerOf(module) === undefined) return [`${path} is in no folder of the table`];
  const faults = source.imports.flatMap((target) => faultOfImport(module, moduleOf(target)));
  for (const name of [...source.packages, ...source.imports.filter((target) => !target.startsWith("src/"))]) {
    const importers = PACKAGES.find(([pattern]) => pattern.test(name))?.[1];
    if (!importers?.test(module)) faults.push(`${path} must not import ${name}`);
  }
  for (const name of NODE_NAMES) {
    if (source.names.has(name) && !NODE_MODULES.test(module))
      faults.push(`${path} says ${name}, which only Node knows`);
  }
  if (source.hasDefaultExport) faults.push(`${path} has a default export`);
  if (source.isBarrel && !ENTRY_POINTS.includes(module))
    faults.push(`${path} passes on what others export, and is no entry point`);
  return faults;
}

function faultOfImport(module: string, target: string): string[] {
  if (layerOf(target) === undefined) return [`${module} imports ${target}, which is in no folder of the table`];
  const isAllowed = layerOf(module) === layerOf(target) || arrowOf(module, target) !== undefined;
  return isAllowed ? [] : [`${module} must not import ${target}`];
}

/** Each cycle of imports once, as a path that ends where it began. */
function findCycles(sources: readonly Source[]): string[][] {
  const imports = new Map(sources.map((source) => [source.path, source.imports]));
  const done = new Set<string>();
  const cycles: string[][] = [];
  const walk = (path: string, trail: readonly string[]): void => {
    const at = trail.indexOf(path);
    if (at >= 0) cycles.push([...trail.slice(at), path]);
    if (at >= 0 || done.has(path)) return;
    for (const target of imports.get(path) ?? []) walk(target, [...trail, path]);
    done.add(path);
  };
  for (const { path } of sources) walk(path, []);
  return cycles;
}

const TIMERS = ["setTimeout", "setInterval", "setImmediate", "queueMicrotask"];
/** Work that no call waits for: it goes by the timers of the moment, so that a program's fake timers reach it. */
const IN_BACKGROUND = /^(lib\/event-queue|credits\/lease-manager|testing\/.*|view\/copy|console\/view\/script)$/;

/** Timers that a module of `src` looks up when it uses them, as `module: name`: a test's fake timers would stop it. */
export function findLateTimers(module: string, text: string): string[] {
  if (IN_BACKGROUND.test(module)) return [];
  const captured = /^const \{([^}]*)\} = globalThis;$|^import \{([^}]*)\} from "[./]*(?:lib\/)?timers\.js";$/gm;
  const known = [...text.matchAll(captured)].map(([line]) => line).join();
  const used = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");
  return TIMERS.filter((name) => new RegExp(`(?<![.\\w"])${name}[(,]`).test(used.replaceAll(captured, "")))
    .filter((name) => !known.includes(name))
    .map((name) => `${module}: ${name}`);
}
