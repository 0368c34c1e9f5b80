/** The suites that keystile ships, on vitest. */
import { describe, expect, it } from "vitest";
import type { Change, Store } from "../../src/contracts/store.js";
import * as testing from "../../src/testing/index.js";
import { UNSEEN } from "../../src/testing/store/root-keys.js";
import { api, identity, insert, keyRow, rootKey } from "../../src/testing/store/rows.js";
import { change, removeRow } from "../../src/testing/store/shared-steps.js";

export { keyRow };

/**
 * The suite of every store, and that ours notify of no more than changed, where the contract allows `all`.
 * @see src/testing/store/suite.ts
 */
export function storeSuite(title: string, open: () => Store | Promise<Store>): void {
  testing.storeSuite({ describe, it }, title, open);
  it(`store: ${title}: subscribers are notified of what changed, and of nothing else`, () => notifiesExactly(open));
}

async function notifiesExactly(open: () => Store | Promise<Store>): Promise<void> {
  const store = await open();
  try {
    await store.write([{ table: "apis", row: api() }]);
    const notified: Change[] = [];
    store.subscribe((one) => notified.push(one));
    const since = () => [...new Map(notified.splice(0).map((one) => [JSON.stringify(one), one])).values()];
    await insert(store, keyRow(1));
    expect(since()).toEqual([{ digest: "digest-1" }]);
    await change(store, "keys", keyRow(1).id, { enabled: false });
    expect(since()).toEqual([{ digest: "digest-1" }]);
    const { digest: _, ...pending } = keyRow(2, { foreignDigest: "f", migrationId: "m" });
    await insert(store, pending);
    since();
    await store.adoptDigest((await store.findForeignKey("m", "f"))!.ref, "adopted");
    expect(since()).toEqual([{ digest: "adopted" }]);
    await store.write([{ table: "identities", row: identity("user") }]);
    since();
    await removeRow(store, "identities", "id_user");
    expect(since()).toHaveLength(1);
    await store.write([{ table: "rootKeys", row: rootKey(1) }]);
    expect(since()).toEqual([{ digest: "root-digest-1" }]);
    await change(store, "rootKeys", "root_1", { digest: "root-digest-9" });
    expect(new Set(since())).toEqual(new Set([{ digest: "root-digest-1" }, { digest: "root-digest-9" }]));
    await removeRow(store, "rootKeys", "root_1");
    expect(since()).toEqual([{ digest: "root-digest-9" }]);
    for (const write of UNSEEN) expect(await store.write([write])).toBe("written");
    expect(since()).toEqual([]);
  } finally {
    await store.close();
  }
}

/** @see src/testing/store/shared-suite.ts */
export function sharedStoreSuite(title: string, open: testing.OpenShared): void {
  testing.sharedStoreSuite({ describe, it }, title, open);
}
