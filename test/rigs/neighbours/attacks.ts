/** The attacks, each at ten times the strength at which a server without bounds failed. */
import type { ServerOptions } from "../../../src/http/index.js";
import { OPERATIONS } from "../../../src/http/operations/index.js";
import { LARGE_BODY_BYTES, SMALL_BODY_BYTES } from "../../../src/http/operations/operation.js";
import type { Engine } from "./open-database.js";
import { wildcardsOf, type World } from "./world.js";

/** The bytes of a request. Its parts are shared with other requests. */
export type Sent = readonly Buffer[];

/** `createServer`, `createNodeListener`, or the console as a listener, each on `node:http`. */
export type Host = "server" | "listener" | "console";

/** What is sent, and how. */
export interface Attack {
  /** The connections at full strength. */
  readonly connections: number;
  /** Requests of each connection; absent: together they send each request `rounds` times. */
  readonly requests?: number;
  readonly rounds?: number;
  /** Requests of a connection that may wait for their answers. */
  readonly depth: number;
  /** Whether answers are read. */
  readonly isReading: boolean;
  /** Whether it goes on until its time is over, whatever was answered. */
  readonly isHolding?: true;
  /** Whether each request must be answered: then a connection that ends before is a fault. */
  readonly isComplete?: true;
  /** Client addresses that it comes from; absent: one. */
  readonly addresses?: number;
  /** What serves; absent: `createServer`. */
  readonly host?: Host;
  /** What the server keeps its rows in; absent: a file. */
  readonly engine?: Engine;
  /** Options of the server that it is about. @param scale of the strength */
  readonly options?: (scale: number) => ServerOptions;
  /** Whether the server counts verifications: then those of the neighbour must all be there. */
  readonly isCounting?: true | undefined;
  /** Milliseconds by which the store is slower to take counts. */
  readonly countsTake?: number;
  /** Whether it asks for changes that change nothing: then the audit trail must be as it was. */
  readonly isChangeless?: true;
  /** Roles of a thousand wildcards that a key of its has, at full strength; absent: none. */
  readonly roles?: number;
  /** The requests, which connections send in turn; or the one of a number. */
  readonly requestsOf: (world: World) => readonly Sent[] | ((i: number) => Sent);
}

const ALL = Number.MAX_SAFE_INTEGER;

function head(operation: string, rootKey: string | undefined, ...more: readonly string[]): string {
  const credential = rootKey === undefined ? [] : [`authorization: Bearer ${rootKey}`];
  const lines = [`POST /v2/${operation} HTTP/1.1`, "host: keys", ...credential, "content-type: application/json"];
  return `${[...lines, ...more].join("\r\n")}\r\n\r\n`;
}

function post(operation: string, rootKey: string | undefined, body: Buffer | string): Sent {
  const bytes = Buffer.from(body);
  return [Buffer.from(head(operation, rootKey, `content-length: ${bytes.length}`)), bytes];
}

/** Lists in a list: each takes three bytes, and far more once parsed. No item has more values than are allowed. */
const emptyLists = (count: number): string => `[${"[],".repeat(count - 1)}[]]`;
const importOf = ({ migrationId, apiId }: World, keys: string): string =>
  `{"migrationId":"${migrationId}","apiId":"${apiId}","keys":[${keys}]}`;
/** 936 kB that expand 14 times, and end as a 400. */
const longImport = (world: World): Sent =>
  post("keys.migrateKeys", world.allRights, importOf(world, Array<string>(8).fill(emptyLists(39_000)).join(",")));
/** 129 kB, as much as is read of a caller without the right. */
const brackets = (world: World): Sent => post("keys.migrateKeys", world.noRights, `{"keys":${emptyLists(43_000)}}`);
/** A page of 4 MiB for 200 bytes. */
const longPage = ({ longApiId, allRights }: World): Sent =>
  post("apis.listKeys", allRights, JSON.stringify({ apiId: longApiId }));
/** Six bytes on the wire for each of the body. */
const byteChunks = ({ allRights }: World): Sent => [
  Buffer.from(head("keys.migrateKeys", allRights, "transfer-encoding: chunked")),
  Buffer.from("1\r\n \r\n".repeat(LARGE_BODY_BYTES - 1)),
  Buffer.from("0\r\n\r\n"),
];
const neverEnding = ({ allRights }: World): Sent => [
  Buffer.from(head("keys.migrateKeys", allRights, `content-length: ${LARGE_BODY_BYTES}`)),
  Buffer.alloc(LARGE_BODY_BYTES - 1, "["),
];
/** A head that announces a body, of which nothing ever comes. */
const headAlone =
  (...more: readonly string[]) =>
  ({ allRights }: World): Sent => [
    Buffer.from(head("keys.migrateKeys", allRights, `content-length: ${LARGE_BODY_BYTES - 1}`, ...more)),
  ];
/** The same without a credential: the longest form that the console reads. */
const signInHead: Sent = [
  Buffer.from(
    [
      "POST /sign-in HTTP/1.1",
      "host: localhost",
      "origin: http://localhost",
      "content-type: application/x-www-form-urlencoded",
      "content-length: 16384\r\n\r\n",
    ].join("\r\n"),
  ),
];
const limits = (world: World): Sent => {
  const ratelimits = Array.from({ length: 1_000 }, (_, i) => ({
    name: `limit${i}`,
    limit: 1_000_000,
    duration: 60_000,
  }));
  return post("keys.verifyKey", world.allRights, JSON.stringify({ key: world.key, ratelimits }));
};
const verification = ({ allRights, key }: World): Sent => post("keys.verifyKey", allRights, JSON.stringify({ key }));

/** A verification with as many new tags as it may have. Both workspaces that attack send them. */
const tagged =
  (letter: string, characters: number): Attack["requestsOf"] =>
  ({ allRights, key, other }) =>
  (i) => {
    const tags = Array.from({ length: 20 }, (_, tag) => `${i}t${tag}`.padEnd(characters, letter));
    const [rootKey, of] = i % 2 === 0 ? [allRights, key] : [other.rootKey, other.key];
    return post("keys.verifyKey", rootKey, JSON.stringify({ key: of, tags }));
  };
/** Updates of a key. @param nameOf the name that each gives it */
const updates =
  (nameOf: (world: World, i: number) => string): Attack["requestsOf"] =>
  (world) =>
    Array.from({ length: 1_200 }, (_, i) =>
      post("keys.updateKey", world.allRights, JSON.stringify({ keyId: world.keyId, name: nameOf(world, i) })),
    );
/** Sets the permissions of a role, each time others, and verifies the key that has them all. */
const wildcards: Attack["requestsOf"] = ({ other: { rootKey, key }, roles }) =>
  roles.flatMap((roleId) =>
    ["last", "other"].flatMap((last) => [
      post(
        "permissions.setRolePermissions",
        rootKey,
        JSON.stringify({ roleId, permissions: wildcardsOf(roleId, last) }),
      ),
      post("keys.verifyKey", rootKey, JSON.stringify({ key })),
    ]),
  );

/** 10 MB, without a credential, without the right and with all rights. */
function tooLong({ allRights, noRights }: World): readonly Sent[] {
  const body = Buffer.alloc(10_000_000, " ");
  return [undefined, noRights, allRights].map((rootKey) => post("apis.createApi", rootKey, body));
}

/** Checks that refuse, of 60,000 identifiers, each new at first: a limiter gives space to others before those. */
function limiterFlood({ allRights }: World): readonly Sent[] {
  return Array.from({ length: 600 }, (_, flood) => {
    // Where a hundred places are no longer free, one may be.
    const checks = Array.from({ length: flood % 2 === 0 ? 100 : 1 }, (_, i) => ({
      namespace: "n",
      identifier: `f${flood}id${i}`,
      limit: 1,
      duration: 2_592_000_000,
    }));
    return post("ratelimit.multiLimit", allRights, JSON.stringify(checks));
  });
}

/** For every operation the worst bodies that are short to say, as long as a caller with all rights or none may send. */
function walk(world: World): readonly Sent[] {
  const wide = `{${Array.from({ length: 120_000 }, (_, i) => `"x${i}":1`).join(",")}}`;
  const texts = (bytes: number): Readonly<Record<string, Buffer>> => ({
    "unknown properties": Buffer.from(wide.slice(0, bytes)),
    "wrong items": Buffer.from(`{"permissions":[${'"é",'.repeat(Math.floor(bytes / 5) - 10)}1]}`),
    depth: Buffer.from("[".repeat(bytes)),
    nothing: Buffer.from("{}"),
  });
  const [small, large] = [texts(SMALL_BODY_BYTES - 1), texts(LARGE_BODY_BYTES - 1)];
  const requests: Sent[] = [];
  for (const { name, bodyBytes } of Object.values(OPERATIONS)) {
    for (const body of Object.values(small)) requests.push(post(name, world.noRights, body));
    for (const body of Object.values(bodyBytes > SMALL_BODY_BYTES ? large : small))
      requests.push(post(name, world.allRights, body));
  }
  const hash = (i: number): string => i.toString(16).padStart(64, "0");
  const hundred = Array.from({ length: 100 }, (_, i) => i);
  const granted = hundred.map((i) => ({
    hash: hash(i),
    permissions: Array.from({ length: 700 }, (_, j) => `p.${i}.${j}`),
  }));
  const named = hundred.map((i) => ({
    hash: hash(i),
    meta: Object.fromEntries(Array.from({ length: 800 }, (_, j) => [`n${i}_${j}`, 1])),
  }));
  for (const rootKey of [world.allRights, world.noRights]) {
    for (const keys of [JSON.stringify(granted).slice(1, -1), Array<string>(340_000).fill("{}").join(",")])
      requests.push(post("keys.migrateKeys", rootKey, importOf(world, keys)));
    const elsewhere = { ...world, apiId: "none" };
    requests.push(post("keys.migrateKeys", rootKey, importOf(elsewhere, JSON.stringify(named).slice(1, -1))));
    requests.push(post("permissions.listRoles", rootKey, '{"limit":100}'));
  }
  return requests;
}

const one =
  (build: (world: World) => Sent): Attack["requestsOf"] =>
  (world) => [build(world)];

/** At one address so many file descriptors are left to a process of 20,000. */
const IDLE = 18_000;
/** So many at least that a neighbour whose calls all wait has no more than a sixteenth of them. */
const MIN_CONNECTIONS = 1_600;
const idle = {
  connections: IDLE,
  requests: 0,
  depth: 1,
  isReading: true,
  isHolding: true,
  options: (scale) => ({ maxConnections: Math.max(MIN_CONNECTIONS, Math.round(4_096 * scale)) }),
  requestsOf: () => [],
} as const satisfies Attack;

const heads = {
  connections: 4_000,
  requests: 1,
  depth: 1,
  isReading: true,
  isHolding: true,
  requestsOf: one(headAlone()),
} as const satisfies Attack;

/** Until its time is over, with counting. */
const tags = {
  connections: 160,
  requests: ALL,
  depth: 1,
  isReading: true,
  isHolding: true,
  isCounting: true,
  requestsOf: tagged("t", 10),
} as const satisfies Attack;
const counting = { ...tags, options: () => ({ verifier: { analytics: { interval: 500 } } }) } as const;
const long = { ...counting, requestsOf: tagged("t", 500) } as const;
const wide = {
  connections: 16,
  requests: ALL,
  depth: 1,
  isReading: true,
  isHolding: true,
  roles: 60,
  requestsOf: wildcards,
} as const satisfies Attack;
const update = { connections: 16, rounds: 1, depth: 1, isReading: true, isComplete: true } as const;

/** By name. */
export const ATTACKS = {
  /** 400 connections, not 1,200 bodies each: 45 GB in ten seconds are more than two cores pass through a socket. */
  "bodies pipelined": {
    connections: 400,
    requests: 120,
    depth: ALL,
    isReading: true,
    requestsOf: one(longImport),
  },
  "bodies of one connection": {
    connections: 1,
    requests: 1_200,
    depth: ALL,
    isReading: true,
    requestsOf: one(longImport),
  },
  "bodies at once": { connections: 6_000, requests: 1, depth: 1, isReading: true, requestsOf: one(longImport) },
  "bodies that never end": {
    connections: 4_000,
    requests: 1,
    depth: 1,
    isReading: true,
    isHolding: true,
    requestsOf: one(neverEnding),
  },
  "pages unread": {
    connections: 400,
    requests: 120,
    depth: ALL,
    isReading: false,
    isHolding: true,
    requestsOf: one(longPage),
  },
  "pages read": { connections: 400, requests: 120, depth: ALL, isReading: true, requestsOf: one(longPage) },
  "chunks of a byte, a few": {
    connections: 16,
    requests: 10,
    depth: ALL,
    isReading: true,
    requestsOf: one(byteChunks),
  },
  "chunks of a byte, many": {
    connections: 160,
    requests: 10,
    depth: ALL,
    isReading: true,
    requestsOf: one(byteChunks),
  },
  "brackets without the right": {
    connections: 160,
    requests: 100,
    depth: 1,
    isReading: true,
    requestsOf: one(brackets),
  },
  "brackets pipelined": { connections: 160, requests: 100, depth: ALL, isReading: true, requestsOf: one(brackets) },
  "a thousand limits": { connections: 160, requests: 100, depth: 1, isReading: true, requestsOf: one(limits) },
  "bad root key pipelined": {
    connections: 640,
    requests: 100,
    depth: ALL,
    isReading: true,
    requestsOf: ({ key }) => [post("keys.verifyKey", "wrong_root_key", JSON.stringify({ key }))],
  },
  "verifications pipelined": {
    connections: 640,
    requests: 100,
    depth: 100,
    isReading: true,
    requestsOf: one(verification),
  },
  "idle connections": idle,
  "idle connections of many addresses": { ...idle, addresses: 100 },
  /** Without a credential, and unread: the longest answer that anybody gets. */
  "documents unread": {
    connections: 4_000,
    requests: 120,
    depth: ALL,
    isReading: false,
    isHolding: true,
    requestsOf: () => [[Buffer.from("GET /openapi.json HTTP/1.1\r\nhost: keys\r\n\r\n")]],
  },
  /** 200 of each kind. */
  "bodies too long": {
    connections: 40,
    requests: 15,
    depth: 1,
    isReading: true,
    isComplete: true,
    requestsOf: tooLong,
  },
  "heads alone": heads,
  /** More than the connections of the server: those of others must not make space for them. */
  "heads alone, of many addresses": { ...heads, connections: 6_000, addresses: 100 },
  "heads that expect": { ...heads, requestsOf: one(headAlone("expect: 100-continue")) },
  "heads alone, a listener": { ...heads, host: "listener" },
  "heads alone, of many addresses, a listener": { ...heads, connections: 6_000, addresses: 100, host: "listener" },
  "heads of sign-in, the console": { ...heads, host: "console", requestsOf: () => [signInHead] },
  "heads of sign-in, of many addresses, the console": {
    ...heads,
    connections: 6_000,
    addresses: 100,
    host: "console",
    requestsOf: () => [signInHead],
  },
  "short tags": counting,
  "short tags, a writer thread": { ...counting, engine: "sqlite with a writer thread" },
  "short tags, PostgreSQL": { ...counting, engine: "postgres" },
  "long tags": long,
  /** Memory for four sets of tags, which is used up while the store takes the four before. */
  "long tags, little memory": {
    ...long,
    countsTake: 100,
    options: () => ({ verifier: { analytics: { memory: 2 ** 18 } } }),
  },
  "long tags of two bytes a character, a writer thread": {
    ...long,
    engine: "sqlite with a writer thread",
    requestsOf: tagged("ж", 500),
  },
  /** Almost none of them is written while they come. */
  "long tags of two bytes a character, a slow store": {
    ...counting,
    isCounting: undefined,
    countsTake: 1_000,
    requestsOf: tagged("ж", 500),
  },
  "long tags of two bytes a character, PostgreSQL": { ...long, engine: "postgres", requestsOf: tagged("ж", 500) },
  "updates that change nothing": { ...update, isChangeless: true, requestsOf: updates(({ name }) => name) },
  "updates that change nothing, PostgreSQL": {
    ...update,
    isChangeless: true,
    engine: "postgres",
    requestsOf: updates(({ name }) => name),
  },
  updates: { ...update, requestsOf: updates((_, i) => `name ${i}`) },
  "updates, PostgreSQL": { ...update, engine: "postgres", requestsOf: updates((_, i) => `name ${i}`) },
  "roles of wildcards": wide,
  "roles of wildcards, PostgreSQL": { ...wide, engine: "postgres" },
  "limiter flood": { connections: 160, rounds: 6, depth: 1, isReading: true, requestsOf: limiterFlood },
  "every operation": { connections: 160, rounds: 1, depth: 1, isReading: true, isComplete: true, requestsOf: walk },
} as const satisfies Readonly<Record<string, Attack>>;

export type AttackName = keyof typeof ATTACKS;
