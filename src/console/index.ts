/**
 * The entry `keystile/console`: pages for looking after keys in a browser.
 * @module keystile/console
 */
export { createConsole, type ConsoleHandlerOptions } from "./console.js";
export { createConsoleListener, type ConsoleListenerOptions } from "./listener.js";
export type { ConsoleAnalytics, ConsoleOptions } from "./options.js";
export type { Handler } from "../http/fetch.js";
export type { NodeListener } from "../http/node/listener.js";
