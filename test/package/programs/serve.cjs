const { createKeyring, memoryStore } = require("keystile");
const { createServer } = require("keystile/http");
const serving = require("./serving.cjs");

void serving(createKeyring, memoryStore, createServer).then((code) => console.log(code));
