/** Opens and closes the stores of each test. */
import type { Store } from "../../contracts/store.js";
import { closing } from "../closing.js";
import { expect } from "../expect.js";
import type { TestFunctions } from "../test-functions.js";
import { api } from "./rows.js";

/** Adds a test; its body receives a new store with the API that {@link keyRow} refers to, and what creates another. */
export type Clause = (title: string, body: (store: Store, open: () => Promise<Store>) => Promise<void>) => void;

/** Closes whatever a test opened, also when it fails. */
export function clausesOf({ it }: TestFunctions, open: () => Store | Promise<Store>): Clause {
  return (title, body) =>
    void it(title, () =>
      closing(open, async (openOne) => {
        const withApi = async (): Promise<Store> => {
          const store = await openOne();
          expect(await store.write([{ table: "apis", row: api() }])).toBe("written");
          return store;
        };
        await body(await withApi(), withApi);
      }),
    );
}
