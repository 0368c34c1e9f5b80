// As esm.mjs, to be bundled into one file: CommonJS knows no await outside of functions.
import * as keystile from "keystile";
import * as sqlite from "keystile/sqlite";
import journey from "./journey.cjs";

void journey(keystile, sqlite, process.argv[2]).then((happened) => console.log(JSON.stringify(happened)));
