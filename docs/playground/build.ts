/** Makes the playground: `npm run playground`, or with a path to write elsewhere. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makePlayground } from "./make.js";

writeFileSync(process.argv[2] ?? join(import.meta.dirname, "index.html"), await makePlayground());
