/** How a portal looks: the program's own colours, font and logo, as variables of CSS that nothing can leave. */
import { checkOptions, group, oneOf, text, type Check, type OptionChecks } from "../lib/check-options.js";
import { DARK, LIGHT, STYLE } from "../view/style.js";

/**
 * Colours of CSS: `#1d5bd0`, a name, or a function such as `oklch(0.6 0.2 260)`. Texts must stand out from what is
 * behind them; nothing checks that they do.
 */
export interface PortalColors {
  /** Links, buttons, bars. */
  readonly accent?: string;
  /** Text on a button. */
  readonly onAccent?: string;
  readonly background?: string;
  /** Of the bar at the top. */
  readonly surface?: string;
  readonly text?: string;
  readonly muted?: string;
  readonly line?: string;
}

/** How a portal looks; all of it may be left out. */
export interface PortalTheme {
  /** Your name, at the top and in the title of each page, 1–100 characters. Default: none. */
  readonly name?: string;
  /** Picture at the top, 24 pixels high: a path of your site, or an `https:` address, the one other origin it loads. */
  readonly logo?: string;
  /** Families of fonts that the browser has, such as `"Inter", sans-serif`; none is loaded. */
  readonly font?: string;
  /** Default: as the browser asks. */
  readonly scheme?: "light" | "dark";
  readonly light?: PortalColors;
  readonly dark?: PortalColors;
}

/** What a browser goes to or loads: a path of the site, or an address over TLS. */
export function isAddress(value: unknown): value is string {
  if (typeof value !== "string" || value.length > 2_000 || !/^[!-~]+$/.test(value) || /["'<>\\;,]/.test(value))
    return false;
  return /^\/(?!\/)/.test(value) || (/^https:\/\/[^/]/.test(value) && URL.canParse(value));
}

/** No bracket, semicolon, slash-star, url() or var() fits: a colour ends with its declaration, and loads nothing. */
const COLOR =
  /^(?:#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})|[a-z]{3,30}|(?:rgb|hsl|hwb|lab|lch|oklab|oklch)a?\([0-9a-z.,%\/ +-]{1,60}\))$/i;
const FONT =
  /^(?:"[a-z0-9 -]{1,60}"|-?[a-z][a-z0-9-]{0,60})(?:, ?(?:"[a-z0-9 -]{1,60}"|-?[a-z][a-z0-9-]{0,60})){0,9}$/i;

const matching =
  (pattern: RegExp, what: string): Check =>
  (value, path) => {
    if (typeof value !== "string" || !pattern.test(value)) throw new TypeError(`${path} must be ${what}`);
  };

const VARIABLES = {
  ...{ accent: "--accent", onAccent: "--on-accent", background: "--bg", surface: "--side", text: "--text" },
  ...{ muted: "--muted", line: "--line" },
} as const satisfies Record<keyof PortalColors, string>;
const color = matching(COLOR, "a colour of CSS, such as #1d5bd0");
const COLORS: OptionChecks = Object.fromEntries(Object.keys(VARIABLES).map((name) => [name, color]));

const THEME = {
  name: (value, path) => {
    text(value, path);
    if ((value as string).length > 100) throw new RangeError(`${path} must be at most 100 characters`);
  },
  logo: (value, path) => {
    if (!isAddress(value)) throw new TypeError(`${path} must be a path such as /logo.svg, or an https address`);
  },
  font: matching(FONT, 'families of fonts, such as "Inter", sans-serif'),
  scheme: oneOf("light", "dark"),
  ...{ light: group(COLORS), dark: group(COLORS) },
} as const satisfies Record<keyof PortalTheme, Check>;

/** The check of the option. */
export const checkTheme: Check = (value, path) => void checkOptions(value, THEME, path);

/** Besides the style of all pages: a bar at the top in place of a menu at the side. */
const BAR = `.ks-top{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem 1.5rem;padding:.75rem max(2rem,calc((100% - 64rem)/2 + 2rem));background:var(--side);border-bottom:1px solid var(--line)}
.ks-top img{height:24px;display:block}.ks-top ul{display:flex;flex-wrap:wrap;gap:.25rem}.ks-top .ks-menu{flex-direction:row}.ks-top+.ks-main{margin:0 auto;max-width:64rem}
.ks-left{font-size:32px;font-weight:650;line-height:1.2;font-variant-numeric:tabular-nums;margin-bottom:.75rem}.ks-top .ks-brand{padding:0}.ks-body input{accent-color:var(--accent)}.ks-until{display:inline-block;font-size:13px}
@media (max-width:60rem){.ks-top{padding:.75rem 1rem}.ks-table time{white-space:normal}.ks-table :is(.ks-name,code){max-width:9rem}.ks-top .ks-menu{overflow:visible;padding:0}}@media print{.ks-top{display:none}}
`;

/** @param theme as {@link checkTheme} passed it */
export function toStyle({ font, scheme, light = {}, dark = {} }: PortalTheme): string {
  const family = font === undefined ? "" : `.ks-body{font-family:${font}}`;
  if (scheme !== undefined) {
    const [palette, colors] = scheme === "dark" ? [DARK, dark] : [LIGHT, light];
    return `${STYLE}${BAR}:root{color-scheme:${scheme};${palette};${declared(colors)}}${family}`;
  }
  return `${STYLE}${BAR}:root{${declared(light)}}@media (prefers-color-scheme:dark){:root{${declared(dark)}}}${family}`;
}

const declared = (colors: PortalColors): string =>
  Object.entries(VARIABLES)
    .flatMap(([name, variable]) => {
      const value = colors[name as keyof PortalColors];
      return value === undefined ? [] : [`${variable}:${value}`];
    })
    .join(";");

/** The origin that the logo is loaded from; undefined: the portal's own. */
export const originOfLogo = ({ logo = "/" }: PortalTheme): string | undefined =>
  logo.startsWith("/") ? undefined : new URL(logo).origin;
