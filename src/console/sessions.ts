/**
 * Sessions of signed-in root keys, in memory: they end with the process. A session keeps digests alone, neither its own
 * id nor the root key.
 */
import type { ActiveRootKey, RootKeys } from "../access/authenticate.js";
import { digestKey, newSecret } from "../lib/hash.js";

/** Milliseconds after which a session ends: since it began, and since it was last used. */
const MAX_AGE = 8 * 3_600_000;
const MAX_IDLE = 30 * 60_000;
/** The one that was unused for longest gives way. */
const MAX_SESSIONS = 1_000;

interface Session {
  /** Of the root key. */
  readonly digest: string;
  /** What the root key might do when it signed in. */
  readonly grants: string;
  readonly began: number;
  readonly used: number;
}

/** Sessions by their ids. */
export interface Sessions {
  /** A new session of a root key. @returns its id; undefined: the root key is not in force */
  begin(rootKey: string): Promise<string | undefined>;
  /** Whose session it is, if it is one and its root key is in force and as it was. */
  find(id: string): Promise<ActiveRootKey | undefined>;
  end(id: string): Promise<void>;
}

/** @param clock returns Unix time, milliseconds */
export function createSessions(rootKeys: Pick<RootKeys, "find">, clock: () => number): Sessions {
  const sessions = new Map<string, Session>();
  const isOver = ({ began, used }: Session, now: number): boolean => now - began >= MAX_AGE || now - used >= MAX_IDLE;
  return {
    async begin(rootKey) {
      const digest = await digestKey(rootKey);
      const active = await rootKeys.find(digest);
      if (active === undefined) return undefined;
      const id = newSecret();
      const name = await digestKey(id);
      const now = clock();
      for (const oldest of sessions.keys()) {
        if (sessions.size < MAX_SESSIONS) break;
        sessions.delete(oldest);
      }
      sessions.set(name, { digest, grants: grantsOf(active), began: now, used: now });
      return id;
    },
    async find(id) {
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
    async end(id) {
      sessions.delete(await digestKey(id));
    },
  };
}

const grantsOf = ({ permissions }: ActiveRootKey): string => JSON.stringify(permissions);
