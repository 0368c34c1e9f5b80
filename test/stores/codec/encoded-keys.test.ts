import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NewKey } from "../../../src/contracts/store.js";
import { encodeKey, encodeKeys } from "../../../src/stores/codec/encoded-keys.js";
import { packKeys, unpackKeys } from "../../../src/stores/sqlite/keys/keys-in-transfer.js";
import { encodeBody, encodeGrants } from "../../../src/stores/codec/key-codec.js";
import { keyRow } from "../suite.js";

const text = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("", "\ud800", "\0", "ключ"));
const lists = [[], ["perm_1"], ["perm_1"]];
const aKey: fc.Arbitrary<NewKey> = fc
  .record({
    id: text,
    digest: fc.option(text, { nil: undefined }),
    foreign: fc.option(text, { nil: undefined }),
    identity: fc.option(text, { nil: undefined }),
    deleted: fc.boolean(),
    version: fc.nat(3),
    generation: fc.nat(),
    permissions: fc.constantFrom(...lists),
    roles: fc.constantFrom(...lists),
    name: fc.option(text, { nil: undefined }),
    balance: fc.option(
      fc.record({ remaining: fc.maxSafeNat(), amount: fc.maxSafeNat(), period: fc.maxSafeInteger() }),
      { nil: undefined },
    ),
  })
  .map(({ id, digest, foreign, identity, name, balance, ...rest }) => ({
    row: {
      ...keyRow(1, rest),
      id,
      ...(digest !== undefined && { digest }),
      ...(foreign !== undefined && { foreignDigest: foreign }),
      ...(identity !== undefined && { identityId: identity }),
      ...(name !== undefined && { name }),
    },
    ...(balance !== undefined && { balance }),
  }));

describe("encoded keys", () => {
  it("clause 3: cross over to another thread as they are (property)", () => {
    fc.assert(
      fc.property(fc.array(aKey), (keys) => {
        const encoded = encodeKeys(keys);
        expect(unpackKeys(structuredClone(packKeys(encoded)))).toEqual(encoded);
      }),
    );
  });

  it("are each what its own row says, whichever lists it shares with the one before (property)", () => {
    fc.assert(
      fc.property(fc.array(aKey), (keys) => {
        const encoded = encodeKeys(keys);
        expect(encoded).toEqual(keys.map(({ row, balance }) => encodeKey(row, balance)));
        expect(encoded.map(({ body, grants }) => [body, grants])).toEqual(
          keys.map(({ row }) => [encodeBody(row), encodeGrants(row)]),
        );
      }),
    );
  });

  it("a balance that is not a number arrives as none, which the file refuses", () => {
    const wrong = { remaining: NaN, amount: undefined, period: null } as unknown as NewKey["balance"];
    const [key] = unpackKeys(structuredClone(packKeys([encodeKey(keyRow(1), wrong)])));
    expect(key?.balance).toEqual({ remaining: NaN, amount: NaN, period: NaN });
  });
});
