import * as keystile from "keystile";
import * as sqlite from "keystile/sqlite";
import journey from "./journey.cjs";

console.log(JSON.stringify(await journey(keystile, sqlite, process.argv[2])));
