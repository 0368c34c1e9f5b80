/** The clients that the limiter is tried with, with their default options. */
import { Cluster as Cluster6, Redis as Redis6 } from "ioredis";
import { Cluster as Cluster5, Redis as Redis5 } from "ioredis5";
import { createClient as createClient6, createCluster as createCluster6 } from "redis";
import { createClient as createClient5, createCluster as createCluster5 } from "redis5";
import type { RedisClient } from "../../../src/ratelimit/redis/client.js";

export interface Connected {
  readonly client: RedisClient;
  disconnect(): void;
}

const silent = (): undefined => undefined;

/** By name: connects to one server. */
export const CLIENTS: Readonly<Record<string, (url: string) => Promise<Connected>>> = {
  async "ioredis 6"(url) {
    const client = new Redis6(url).on("error", silent);
    return { client, disconnect: () => client.disconnect() };
  },
  async "ioredis 5"(url) {
    const client = new Redis5(url).on("error", silent);
    return { client, disconnect: () => client.disconnect() };
  },
  async "redis 6"(url) {
    const client = createClient6({ url }).on("error", silent);
    await client.connect();
    return { client, disconnect: () => client.destroy() };
  },
  async "redis 5"(url) {
    const client = createClient5({ url }).on("error", silent);
    await client.connect();
    return { client, disconnect: () => client.destroy() };
  },
  async "a function"(url) {
    const redis = new Redis6(url).on("error", silent);
    const client = ([name, ...args]: string[]) => redis.call(name!, ...args);
    return { client, disconnect: () => redis.disconnect() };
  },
};

/** By name: connects to a cluster by one of its servers. */
export const CLUSTERS: Readonly<Record<string, (port: number) => Promise<Connected>>> = {
  async "ioredis 6"(port) {
    const client = new Cluster6([{ host: "127.0.0.1", port }]).on("error", silent);
    return { client, disconnect: () => client.disconnect() };
  },
  async "ioredis 5"(port) {
    const client = new Cluster5([{ host: "127.0.0.1", port }]).on("error", silent);
    return { client, disconnect: () => client.disconnect() };
  },
  async "redis 6"(port) {
    const client = createCluster6({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] }).on("error", silent);
    await client.connect();
    return { client, disconnect: () => client.destroy() };
  },
  async "redis 5"(port) {
    const client = createCluster5({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] }).on("error", silent);
    await client.connect();
    return { client, disconnect: () => client.destroy() };
  },
};
