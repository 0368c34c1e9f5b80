/**
 * The entry `keystile/portal`: pages on which customers look after their own keys.
 * @module keystile/portal
 */
export { createPortal } from "./portal.js";
export { createPortalListener } from "./listener.js";
export type { PortalOptions } from "./options.js";
export type { PortalTexts } from "./texts.js";
export type { PortalColors, PortalTheme } from "./theme.js";
export type { Handler } from "../http/fetch.js";
export type { NodeListener } from "../http/node/listener.js";
