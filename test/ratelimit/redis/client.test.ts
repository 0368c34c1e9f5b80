/** What the limiter takes a client for, by the methods that it has. */
import { describe, expect, it } from "vitest";
import { isOneServer, type RedisClient, toCommand } from "../../../src/ratelimit/redis/client.js";

/** A client whose methods answer with what they were given. */
const echo = (...names: string[]): object =>
  Object.fromEntries(names.map((name) => [name, (...given: unknown[]) => Promise.resolve([name, ...given])]));
const COMMAND = ["EVALSHA", "a", "b"];

describe("the client of a Redis limiter", () => {
  it.each([
    ["ioredis", echo("call"), true, ["call", "EVALSHA", "a", "b"]],
    ["ioredis, a cluster", { ...echo("call"), isCluster: true }, false, ["call", "EVALSHA", "a", "b"]],
    ["ioredis, one server that says so", { ...echo("call"), isCluster: false }, true, ["call", "EVALSHA", "a", "b"]],
    ["ioredis, which has sendCommand as well", echo("call", "sendCommand"), true, ["call", "EVALSHA", "a", "b"]],
    ["redis", echo("sendCommand"), true, ["sendCommand", COMMAND]],
    ["redis, a cluster", echo("sendCommand", "getSlotRandomNode"), false, ["sendCommand", "first", false, COMMAND]],
  ])("%s", async (_, client, isOne, sent) => {
    expect(isOneServer(client as RedisClient)).toBe(isOne);
    expect(await toCommand(client as RedisClient)(COMMAND, "first")).toEqual(sent);
  });

  it("a function, of whose servers nothing is known", () => {
    const command = () => Promise.resolve(undefined);
    expect(isOneServer(command)).toBe(false);
    expect(toCommand(command)).toBe(command);
  });

  it.each([undefined, null, 0, "redis://localhost", {}, { call: "no" }, { sendCommand: "no" }, []])(
    "%j is none",
    (given) => {
      expect(() => toCommand(given as unknown as RedisClient)).toThrow(TypeError);
    },
  );
});
