/** Who may import whom, as a table; finds what breaks it. The table of rooms is this file, nothing else repeats it. */
import type { Source } from "./source.js";

/** What a room may reach. */
interface Room {
  readonly name: string;
  readonly files: RegExp;
  /** Rooms it may import, besides itself. */
  readonly uses: readonly string[];
  /** Rooms whose types it may name. */
  readonly names?: readonly string[];
}

const NOUNS = ["types", "ports"];

/** Every file of `src` is in one room, the first that fits. */
const ROOMS: readonly Room[] = [
  { name: "types", files: /^src\/types\.ts$/, uses: [] },
  { name: "ports", files: /^src\/(store|limiter|caller|key-fields)\.ts$/, uses: ["types"] },
  { name: "tags", files: /^src\/tags\//, uses: [] },
  // What goes wrong, what judges a program's options, what tells a promise: every room may say so in the same words.
  { name: "errors", files: /^src\/(errors|options|late)\.ts$/, uses: NOUNS },
  { name: "basics", files: /^src\/(hash|credits|plain|outcomes|callers\/(json-names|strict-caller))\.ts$/, uses: ["errors", ...NOUNS] },
  {
    name: "consulted",
    files:
      /^src\/(request|permissions|callers\/grants|query-problem|ratelimit|addresses|algorithms|leases|leases\/[a-z]+|key-policy|numbered|prepared-key|packed-keys)\.ts$/,
    uses: ["basics", "errors", ...NOUNS, "helpers", "tags", "grammar"],
    names: ["defaults"],
  },
  // What stands between the core and a store or a limiter that the program brought.
  { name: "guards", files: /^src\/guards\//, uses: ["basics", "errors", ...NOUNS] },
  // Apart from the rest, so that the front door never brings jose along.
  { name: "credentials", files: /^src\/callers\/(proxy-keys|proxy-token|root-key-cache)\.ts$/, uses: ["basics", "errors", ...NOUNS] },
  { name: "authentication", files: /^src\/authenticate\.ts$/, uses: ["guards", "credentials", "consulted", "basics", "errors", ...NOUNS] },
  {
    name: "verbs",
    files: /^src\/(verify-key|usual-call|find-key|take-limits|answer)\.ts$/,
    uses: ["consulted", "basics", "errors", ...NOUNS],
    names: ["defaults"],
  },
  { name: "administration", files: /^src\/keyring\//, uses: ["consulted", "basics", "errors", ...NOUNS, "helpers"], names: ["defaults"] },
  // The wiring picks the decorator and the limiter that serve by default; both know only the ports.
  {
    name: "verifier",
    files: /^src\/verifier\.ts$/,
    uses: ["guards", "verbs", "consulted", "basics", "errors", ...NOUNS, "defaults", "tags"],
  },
  { name: "keyring", files: /^src\/keyring\.ts$/, uses: ["guards", "administration", "consulted", "basics", "errors", ...NOUNS] },
  {
    name: "limits",
    files: /^src\/(ratelimits|request-limit)\.ts$/,
    uses: ["guards", "administration", "consulted", "basics", "errors", ...NOUNS, "defaults"],
  },
  {
    name: "front door",
    files: /^src\/index\.ts$/,
    uses: ["verifier", "keyring", "limits", "consulted", "basics", "errors", ...NOUNS, "defaults", "memory store"],
    names: ["verbs", "administration", "guards"],
  },
  { name: "sqlite's door", files: /^src\/sqlite\.ts$/, uses: ["engines"] },
  {
    name: "operations",
    files: /^src\/operations(\.ts$|\/)/,
    uses: ["administration", "consulted", "basics", "errors", ...NOUNS],
    names: ["verifier", "keyring", "limits"],
  },
  {
    name: "service",
    files: /^src\/http\//,
    uses: [
      "operations",
      "verifier",
      "keyring",
      "limits",
      "authentication",
      "guards",
      "consulted",
      "basics",
      "errors",
      ...NOUNS,
      "defaults",
    ],
    names: ["administration"],
  },
  { name: "http's door", files: /^src\/http\.ts$/, uses: ["service", "authentication", "credentials"], names: ["limits"] },
  { name: "bin", files: /^src\/cli\.ts$/, uses: ["command line"] },
  // The doctor looks at a file that may be no store: it reaches the driver behind sqlite's door.
  {
    name: "command line",
    files: /^src\/cli\//,
    uses: ["operations", "http's door", "keyring", "administration", "consulted", "sqlite's door", "engines", "errors", ...NOUNS],
  },
  {
    name: "defaults",
    files: /^src\/(stores\/(cached|tag-table|hot-row|two-rows|digest-shelf)|limiters\/(?!redis)[a-z-]+)\.ts$/,
    uses: ["guards", "errors", ...NOUNS, "helpers", "tags"],
  },
  // Pure functions over rows and balances, which every engine shares.
  { name: "helpers", files: /^src\/stores\/(record|balance|freeze|names)\.ts$/, uses: NOUNS },
  { name: "memory store", files: /^src\/stores\/memory\.ts$/, uses: ["guards", "errors", ...NOUNS, "helpers"] },
  { name: "engines", files: /^src\/(stores|limiters)\//, uses: ["guards", "errors", ...NOUNS, "helpers"] },
  { name: "grammar", files: /^grammar\//, uses: [] },
];

/** Packages and Node modules, each with the doors that it comes in by. */
const DOORS: readonly (readonly [pattern: RegExp, doors: RegExp])[] = [
  [/^node:crypto$/, /^src\/hash\.ts$/],
  [/^node:/, /^src\/(stores\/sqlite\/|cli\/|http\/node\.ts$)/],
  [/^better-sqlite3/, /^src\/stores\/sqlite\//],
  [/^lru-cache$/, /^src\/(permissions|key-policy|callers\/root-key-cache|stores\/(cached|digest-shelf))\.ts$/],
  [/^jose$/, /^src\/callers\/proxy-token\.ts$/],
  [/^valibot$/, /^src\/keyring\//],
  [/^commander$/, /^src\/cli\//],
];

/** Names that only Node knows: the core says them nowhere, so that it loads in any runtime. */
const NODE_NAMES = ["process", "Buffer", "require", "__dirname", "__filename", "setImmediate", "global"];
const NODE_ROOMS = /^src\/(hash\.ts|stores\/sqlite\/|cli\/|http\/(node|node-exchange|listener)\.ts)/;
const BARRELS = /^src\/(index|sqlite|http)\.ts$/;
const GRAMMAR_DOOR = /^src\/permissions\.ts$/;

const MAX_LINES = 250;
/** The port and its contract are read as one page, and hold no code. */
const LONGER: Readonly<Record<string, number>> = { "src/contracts/store.ts": 345 };

function roomOf(path: string): Room | undefined {
  return ROOMS.find((room) => room.files.test(path));
}

/** Everything in `sources` that breaks a rule of the house, in words. */
export function findFaults(sources: readonly Source[]): string[] {
  return [...sources.flatMap(faultsOf), ...findCycles(sources).map((cycle) => `cycle: ${cycle.join(" → ")}`)];
}

function faultsOf(source: Source): string[] {
  const { path } = source;
  const room = roomOf(path);
  if (!room) return [`${path} is in no room of the table`];
  const faults = source.imports.flatMap((target) => faultOfImport(source, room, target));
  for (const name of source.packages) {
    const door = DOORS.find(([pattern]) => pattern.test(name));
    if (!door?.[1].test(path)) faults.push(`${path} imports ${name}, and is no door of it`);
  }
  for (const name of NODE_NAMES) {
    if (source.names.has(name) && !NODE_ROOMS.test(path)) faults.push(`${path} says ${name}, which only Node knows`);
  }
  if (source.hasDefaultExport) faults.push(`${path} has a default export`);
  if (source.isBarrel && !BARRELS.test(path)) faults.push(`${path} is a barrel`);
  const most = LONGER[path] ?? MAX_LINES;
  if (source.lines > most) faults.push(`${path} has ${source.lines} lines, more than ${most}`);
  return faults;
}

function faultOfImport({ path, typesOnly }: Source, room: Room, target: string): string[] {
  const takesTypesOnly = typesOnly.has(target);
  const there = roomOf(target);
  if (!there) return [`${path} imports ${target}, which is in no room of the table`];
  if (there.name === "grammar" && !GRAMMAR_DOOR.test(path)) return [`${path} imports the grammar, and is no door of it`];
  const may = there === room || room.uses.includes(there.name) || (takesTypesOnly && room.names?.includes(there.name));
  return may ? [] : [`${path} (${room.name}) imports ${target} (${there.name})`];
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
