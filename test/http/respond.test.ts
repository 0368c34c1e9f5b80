import { describe, expect, it } from "vitest";
import type { Incoming } from "../../src/http/messages.js";
import { createService } from "../../src/http/service.js";
import { memoryStore } from "../../src/index.js";

const MIB = 1_048_576;

describe("respond", () => {
  it("bytes of a body that the host has read already are reserved first: what exceeds the share is a 503", async () => {
    const service = createService(memoryStore(), { memoryBudget: 96 * MIB, admissionTimeout: 1 });
    const statusOf = async (bytes: number): Promise<number> => {
      const incoming: Incoming = {
        method: "POST",
        path: "/v2/keys.verifyKey",
        query: "",
        authorization: [],
        header: () => undefined,
        clientAddress: undefined,
        bytesAhead: () => bytes,
        readBody: () => Promise.reject(new Error("nobody reads it")),
        toRequest: () => new Request("http://keys.test/"),
      };
      const hold = service.arrive(undefined);
      const { status } = await service.answer(incoming, hold);
      hold.release();
      return status;
    };
    // Callers without a credential hold a sixteenth together.
    expect([await statusOf(6 * MIB), await statusOf(6 * MIB + 1)]).toEqual([401, 503]);
    await service.close();
  });
});
