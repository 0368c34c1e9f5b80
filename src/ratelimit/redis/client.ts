/** What the limiter needs of a Redis client, described by its methods: none is loaded here. */

/** A command with its arguments, all text, for the server that has `firstKey`. */
export type RedisCommand = (command: string[], firstKey: string) => Promise<unknown>;

/** A client of ioredis 5 or 6 or iovalkey, for one server, Sentinel or a cluster. */
export interface IoredisClient {
  /** Sends a command, and finds the server of a cluster by its first key. */
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** A client of `redis` (node-redis) 5 or 6, or a pool of them. Connect it first. */
export interface NodeRedisClient {
  /** Sends a command. */
  sendCommand(command: string[]): Promise<unknown>;
}

/** A cluster of `redis` (node-redis) 5 or 6. Connect it first. */
export interface NodeRedisCluster {
  /** Sends a command to the server of its first key. */
  sendCommand(firstKey: string, isReadonly: boolean, command: string[]): Promise<unknown>;
  /** Tells a cluster from a client. */
  getSlotRandomNode(slot: number): unknown;
}

/** How to reach Redis: a client, or a function that sends a command with any other. */
export type RedisClient = IoredisClient | NodeRedisClient | NodeRedisCluster | RedisCommand;

/** @throws TypeError if the value is no client */
export function toCommand(client: RedisClient): RedisCommand {
  if (typeof client === "function") return client;
  if (typeof client === "object" && client !== null) {
    if ("call" in client && typeof client.call === "function")
      return (command) => client.call(...(command as [string, ...string[]]));
    if ("sendCommand" in client && typeof client.sendCommand === "function")
      return "getSlotRandomNode" in client
        ? (command, firstKey) => client.sendCommand(firstKey, false, command)
        : (command) => client.sendCommand(command);
  }
  throw new TypeError("client must be one of ioredis or redis, or a function that takes a command and its first key");
}

/** Whether a client is known to speak to one server; of a function nothing is known. */
export function isOneServer(client: RedisClient): boolean {
  if (typeof client === "function" || "getSlotRandomNode" in client) return false;
  return !("isCluster" in client && client.isCluster === true);
}
