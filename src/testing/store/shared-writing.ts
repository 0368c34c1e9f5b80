/** Conflicting inserts, writes and adoptions of two handles: clauses 4, 8, 13 and 19. */
import type { Store, Write, WriteOutcome } from "../../contracts/store.js";
import { expect, faultOf } from "../expect.js";
import {
  balance,
  identity,
  insert,
  keyRow,
  permission,
  readBalance,
  readRow,
  related,
  role,
  rootKey,
  WS,
} from "./rows.js";
import { reach, type SharedClause, type SharedStore } from "./shared-steps.js";

/** Exactly one of two succeeded. */
const expectOneOf = (answers: readonly unknown[], about: string): void =>
  expect(answers.filter((answer) => answer === true).length, about).toBe(1);

/** One of two writes was made, and the other refused for this reason. */
const expectOneWritten = (outcomes: readonly WriteOutcome[], refusal: WriteOutcome, about: string): void =>
  expect([...outcomes].sort(), about).toEqual([refusal, "written"]);

/** Of keys that are inserted, those whose id, digest or hash another has are reported singly. */
export async function reportsDuplicates(shared: SharedStore): Promise<void> {
  const { here, there } = shared;
  await insert(here, keyRow(1, { foreignDigest: "f1", migrationId: "m" }));
  const batch = [
    keyRow(1, { digest: "digest-new" }),
    keyRow(2),
    keyRow(3, { digest: "digest-1" }),
    keyRow(4, { digest: "digest-2" }),
    keyRow(5, { foreignDigest: "f1", migrationId: "m" }),
    keyRow(6, { foreignDigest: "f6", migrationId: "m" }),
    keyRow(7, { foreignDigest: "f6", migrationId: "m" }),
    keyRow(8),
  ];
  const inserted = await there.insertKeys(batch.map((row) => ({ row, balance: balance(1) })));
  expect(inserted).toEqual([false, true, false, false, false, true, false, true]);
  await reach({ here: there, there: here });
  expect(await readRow(here, "keys", keyRow(3).id)).toBeUndefined();
  expect(await readBalance(here, keyRow(3).id, 0, 0)).toBeUndefined();
  expect((await here.findKey("digest-1"))?.keyId).toBe(keyRow(1).id);
  expect(await here.findKey("digest-new")).toBeUndefined();
  expect((await here.findKey("digest-8"))?.keyId).toBe(keyRow(8).id);
}

/** A pending key gains one of the digests that it is given at once, and none that another has. */
export async function adoptsOnce({ here, there }: SharedStore): Promise<void> {
  let taken: string | undefined;
  for (let n = 0; n < 10; n++) {
    const hash = `foreign-${n}`;
    const { digest: _, ...pending } = keyRow(n, { foreignDigest: hash, migrationId: "m" });
    await insert(here, pending);
    await reach({ here, there });
    const { ref, unadopted } = (await there.findForeignKey("m", hash))!;
    expect(unadopted).toBe(true);
    if (taken !== undefined) expect(await there.adoptDigest(ref, taken), "that of another").toBe(false);
    const adopt = async (store: Store, digest: string) =>
      store.adoptDigest((await store.findForeignKey("m", hash))!.ref, digest);
    const [ours, theirs] = await Promise.all([adopt(here, `here-${n}`), adopt(there, `there-${n}`)]);
    expectOneOf([ours, theirs], hash);
    const [won, lost] = ours ? ["here", "there"] : ["there", "here"];
    taken = `${won}-${n}`;
    await reach({ here, there });
    await reach({ here: there, there: here });
    for (const store of [here, there]) {
      const found = await store.findKey(`${won}-${n}`);
      expect([found?.keyId, found?.unadopted]).toEqual([pending.id, false]);
      expect(await store.findKey(`${lost}-${n}`)).toBeUndefined();
      expect((await store.findForeignKey("m", hash))?.unadopted).toBe(false);
      const row = (await readRow(store, "keys", pending.id))!;
      expect(row, "all else").toEqual({ ...pending, digest: taken, version: row.version });
    }
  }
}

export function sharedWritingClauses(clause: SharedClause): void {
  clause("clause 4: duplicates of keys that the other handle inserted are reported singly", reportsDuplicates);

  clause("clause 4: keys that both handles insert at once go in once each", async ({ here, there }) => {
    const rows = (prefix: string) =>
      Array.from({ length: 300 }, (_, n) => ({ row: keyRow(n, { id: `${prefix}_${n}`, digest: `digest-${n}` }) }));
    const [ours, theirs] = await Promise.all([here.insertKeys(rows("a")), there.insertKeys(rows("b"))]);
    for (const store of [here, there]) await store.pollChanges("anew");
    for (const [n, went] of ours.entries()) {
      expectOneOf([went, theirs[n]], `key ${n}`);
      const id = `${went ? "a" : "b"}_${n}`;
      for (const store of [here, there]) expect((await store.findKey(`digest-${n}`))?.keyId).toBe(id);
    }
  });

  clause("clause 18: an API that the other handle has deleted takes no more keys", async ({ here, there }) => {
    await insert(there, keyRow(1));
    const before = await readRow(here, "apis", "api_1");
    expect(await here.write([{ table: "apis", row: { ...before!, deleted: true } }])).toBe("written");
    expect(await faultOf(() => insert(there, keyRow(2)))).toMatchObject({ code: "NOT_FOUND" });
    expect(await readRow(here, "keys", keyRow(2).id)).toBeUndefined();
  });

  clause(
    "clause 13: of two writes of a row as it was read one is refused, whichever handle made it",
    async ({ here, there }) => {
      await insert(here, keyRow(1));
      await here.write(related());
      const rows = [
        ["keys", keyRow(1).id],
        ["roles", "role_r"],
        ["permissions", "perm_a_read"],
        ["identities", "id_user"],
        ["apis", "api_1"],
      ] as const;
      for (const [table, id] of rows) {
        const row = (await readRow(here, table, id))!;
        expect(await readRow(there, table, id)).toEqual(row);
        const write = { table, row } as Write;
        expect(await here.write([write]), table).toBe("written");
        expect(await there.write([write]), table).toBe("conflict");
        expect(await there.write([{ table, remove: id, version: row.version } as Write]), table).toBe("conflict");
        expect((await readRow(there, table, id))?.version).toBe(row.version + 1);
      }
    },
  );

  clause("clause 13: of two writes at once one is refused, whole", async ({ here, there }) => {
    await insert(here, keyRow(1));
    for (let round = 0; round < 20; round++) {
      const row = (await readRow(here, "keys", keyRow(1).id))!;
      const attempt = (store: Store, name: string) =>
        store.write([
          { table: "keys", row: { ...row, name } },
          { table: "roles", row: role(`${name}_${round}`, []) },
        ]);
      const [ours, theirs] = await Promise.all([attempt(here, "here"), attempt(there, "there")]);
      expectOneWritten([ours, theirs], "conflict", `round ${round}`);
      const [won, lost] = ours === "written" ? ["here", "there"] : ["there", "here"];
      for (const store of [here, there]) {
        expect((await readRow(store, "keys", row.id))?.name).toBe(won);
        expect(await readRow(store, "roles", `role_${won}_${round}`)).toMatchObject({ version: 1 });
        expect(await readRow(store, "roles", `role_${lost}_${round}`)).toBeUndefined();
      }
    }
  });

  clause(
    "clauses 13 and 19: of two new rows of one name one is refused, whichever handle made it",
    async ({ here, there }) => {
      const rows = [
        { table: "roles", row: role("r", []) },
        { table: "permissions", row: permission("a.read") },
        { table: "identities", row: identity("user") },
        { table: "rootKeys", row: rootKey(1) },
      ] as const;
      for (const { table, row } of rows) {
        const over = { id: `${row.id}_other`, ...(table === "rootKeys" && { workspaceId: "ws_2" }) };
        const [ours, theirs] = [row, { ...row, ...over }].map((one) => ({ table, row: one }) as Write);
        expectOneWritten(await Promise.all([here.write([ours!]), there.write([theirs!])]), "taken", table);
      }
      for (const store of [here, there]) {
        expect(await store.readNames("roles", WS, ["r"])).toHaveLength(1);
        expect(await store.write([{ table: "roles", row: role("r", [], { id: "role_third" }) }])).toBe("taken");
      }
    },
  );

  clause("clause 8: a pending key gains one digest, though both handles give it one", adoptsOnce);

  clause("clause 8: one digest is adopted by one key, though the handles give it to two", async ({ here, there }) => {
    for (const n of [1, 2]) {
      const { digest: _, ...pending } = keyRow(n, { foreignDigest: `foreign-${n}`, migrationId: "m" });
      await insert(here, pending);
    }
    await there.pollChanges("anew");
    const adopt = async (store: Store, hash: string) =>
      store.adoptDigest((await store.findForeignKey("m", hash))!.ref, "native");
    const [ours, theirs] = await Promise.all([adopt(here, "foreign-1"), adopt(there, "foreign-2")]);
    expectOneOf([ours, theirs], "the digest");
    for (const store of [here, there]) {
      await store.pollChanges("anew");
      expect((await store.findKey("native"))?.keyId).toBe(keyRow(ours ? 1 : 2).id);
    }
  });
}
