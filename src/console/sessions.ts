/**
 * Sessions of signed-in root keys, in memory: they end with the process. A session keeps digests alone, neither its own
 * id nor the root key.
 */
import type { ActiveRootKey, RootKeys } from "../access/authenticate.js";
import { digestKey, newSecret } from "../lib/hash.js";

/** Milliseconds after which a session ends: since it began, and since it was last used. */
const MAX_AGE = 8 * 3_600_000;
const MAX_IDLE = 30 * 60_000;
/** Of the workspace that has most, the one that was unused for longest gives way: nobody ends those of others. */
const MAX_SESSIONS = 1_000;

interface Session {
  /** Of the root key. */
  readonly digest: string;
  readonly workspaceId: string;
  /** What the root key might do when it signed in. */
  readonly grants: string;
  readonly began: number;
  readonly used: number;
}

/** @param clock returns Unix time, milliseconds */
export function createSessions(rootKeys: Pick<RootKeys, "find">, clock: () => number) {
  const sessions = new Map<string, Session>();
  const isOver = ({ began, used }: Session, now: number): boolean => now - began >= MAX_AGE || now - used >= MAX_IDLE;
  return {
    /** A new session of a root key. @returns its id; undefined: the root key is not in force */
    async begin(rootKey: string): Promise<string | undefined> {
      const digest = await digestKey(rootKey);
      const active = await rootKeys.find(digest);
      if (active === undefined) return undefined;
      const id = newSecret();
      const name = await digestKey(id);
      const now = clock();
      if (sessions.size >= MAX_SESSIONS) sessions.delete(oldestOfLargest(sessions));
      const { workspaceId } = active.caller;
      sessions.set(name, { digest, workspaceId, grants: grantsOf(active), began: now, used: now });
      return id;
    },
    /** Whose session it is, if it is one and its root key is in force and as it was. */
    async find(id: string): Promise<ActiveRootKey | undefined> {
      const name = await digestKey(id);
      const session = sessions.get(name);
      if (session === undefined) return undefined;
      // Taken out until it is known to go on, and then put at the end: the first one is unused for longest.
      const active = isOver(session, clock()) ? undefined : await rootKeys.find(session.digest);
      const isSame = active !== undefined && grantsOf(active) === session.grants;
      if (sessions.get(name) === undefined) return undefined;
      sessions.delete(name);
      if (!isSame) return undefined;
      sessions.set(name, { ...session, used: Math.max(session.used, clock()) });
      return active;
    },
    async end(id: string): Promise<void> {
      sessions.delete(await digestKey(id));
    },
  };
}

/** Sessions by their ids. */
export type Sessions = ReturnType<typeof createSessions>;

/** @param sessions not empty, in the order of their last use */
function oldestOfLargest(sessions: ReadonlyMap<string, Session>): string {
  const counts = new Map<string, number>();
  for (const { workspaceId } of sessions.values()) counts.set(workspaceId, (counts.get(workspaceId) ?? 0) + 1);
  const most = Math.max(...counts.values());
  for (const [name, { workspaceId }] of sessions) if (counts.get(workspaceId) === most) return name;
  throw new Error("there is no session");
}

const grantsOf = ({ permissions }: ActiveRootKey): string => JSON.stringify(permissions);
