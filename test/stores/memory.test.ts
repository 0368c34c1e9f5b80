import { memoryStore } from "../../src/stores/memory.js";
import { cachedStore } from "../../src/stores/cached.js";
import { storeSuite } from "./suite.js";

storeSuite("memory", memoryStore);
storeSuite("memory through the cache", () => cachedStore(memoryStore()));
storeSuite("memory through two caches", () => cachedStore(cachedStore(memoryStore(), { missSize: 0 })));
