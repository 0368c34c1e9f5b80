/** `npm run site`, or with a path to write elsewhere: the site of the documentation, as files for any server. */
import { join } from "node:path";
import { ROOT } from "./pages.js";
import { buildSite } from "./site.js";

const folder = process.argv[2] ?? join(ROOT, ".cache", "site");
await buildSite(folder);
process.stdout.write(`${join(folder, "index.html")}\n`);
