/** Responses of pages, with the headers that tell browsers what a page may do. */
import type { Outgoing } from "../http/messages.js";

/** A file of a page. Its address changes with what is in it. */
export interface PageFile {
  readonly type: string;
  readonly text: string;
}

/** What a page may do besides loading its own files. */
export interface PageRights {
  /** Origin from which it may load pictures; absent: its own alone. */
  readonly images?: string;
  /** Sources of `frame-ancestors`: who may show it in a frame. Absent: nobody. */
  readonly ancestors?: readonly string[] | undefined;
}

export function createPageResponses({ images = "", ancestors }: PageRights = {}) {
  const policy =
    `default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'${images && ` ${images}`}; ` +
    `form-action 'self'; base-uri 'none'; frame-ancestors ${ancestors?.join(" ") ?? "'none'"}`;
  const headers = [
    ...["content-security-policy", policy, "x-content-type-options", "nosniff", "referrer-policy", "same-origin"],
    ...["cross-origin-opener-policy", "same-origin", ...(ancestors === undefined ? ["x-frame-options", "DENY"] : [])],
  ];
  const kept = ["cache-control", "no-store", ...headers];
  return {
    page: (status: number, text: string): Outgoing => ({
      status,
      headers: ["content-type", "text/html; charset=utf-8", ...kept],
      text,
    }),
    redirect: (to: string, more: readonly string[] = []): Outgoing => ({
      status: 303,
      headers: ["location", to, ...kept, ...more],
      text: "",
    }),
    file: ({ type, text }: PageFile): Outgoing => ({
      status: 200,
      headers: ["content-type", type, "cache-control", "public, max-age=31536000, immutable", ...headers],
      text,
    }),
    /** A file that is saved, and kept by nobody between. @param name ASCII */
    download: (type: string, name: string, text: string): Outgoing => ({
      status: 200,
      headers: ["content-type", type, "content-disposition", `attachment; filename="${name}"`, ...kept],
      text,
    }),
  };
}

/** Makes responses of one kind of pages. */
export type PageResponses = ReturnType<typeof createPageResponses>;

/** The path below the mount path, which a proxy or framework before may have taken away. */
export function belowBase(path: string, base: string): string {
  const below = path === base || path.startsWith(`${base}/`) ? path.slice(base.length) : path;
  return below === "" ? "/" : below;
}

/**
 * Below a path that begins as a page does, it could not be told whether a proxy took that path away.
 * @param paths of the pages and files
 * @throws TypeError naming the option
 */
export function checkBase(base: string, paths: readonly string[]): void {
  const firstOf = (path: string): string => `/${path.split("/")[1] ?? ""}`;
  if (base === "" || !paths.some((path) => firstOf(path) === firstOf(base))) return;
  throw new TypeError(
    `options.basePath must not begin with ${firstOf(base)}, which is a page of its own: take another path, such as /account${base}`,
  );
}
