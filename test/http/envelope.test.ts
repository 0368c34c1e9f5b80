/** Pages are written out in turns of the event loop, whatever their length. */
import { describe, expect, it } from "vitest";
import type { Hold } from "../../src/http/admission/admission.js";
import { toPage } from "../../src/http/envelope.js";

describe("toPage", () => {
  it.each([0, 1, 4_000])(
    "writes what JSON.stringify does, and others get their turn after 256 KiB (%i rows)",
    async (rows) => {
      const page = {
        data: Array.from({ length: rows }, (_, i) => ({ id: `row_${i}`, text: "é\n".repeat(300) })),
        pagination: { hasMore: false },
      };
      let turns = 0;
      const { text } = await toPage("req_1", page, [], { turn: async () => void turns++ } as unknown as Hold);
      expect(JSON.parse(text)).toEqual({ meta: { requestId: "req_1" }, ...page });
      // A turn ends with the row that is over the bound.
      expect(turns).toBeGreaterThanOrEqual(Math.floor(text.length / (262_144 + 1_000)));
      expect(turns).toBeLessThanOrEqual(Math.floor(text.length / 262_144));
    },
  );
});
