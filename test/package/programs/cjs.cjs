const keystile = require("keystile");
const sqlite = require("keystile/sqlite");
const journey = require("./journey.cjs");

void journey(keystile, sqlite, process.argv[2]).then((happened) => console.log(JSON.stringify(happened)));
