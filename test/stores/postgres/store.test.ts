/** The PostgreSQL store before the suites of every store, in a PostgreSQL in this process. */
import { sharedStoreSuite, storeSuite } from "../suite.js";
import { pglite } from "./support.js";

const { open } = pglite();

storeSuite("postgres", async () => (await open(1))[0]!);
sharedStoreSuite("postgres, two nodes", async () => (await open(2)) as [never, never]);
