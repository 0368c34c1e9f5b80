import { NextResponse } from "next/server";
import { createGuard, toResponse } from "keystile/web";
import { apiId, verifier } from "./keystile";

const guard = createGuard<Request>(verifier, { apiId, cost: 0 });

/** Refuses what has no key before any route is run. The routes charge. */
export async function proxy(request: Request) {
  const header = (name: string) => request.headers.get(name);
  const decision = await guard.check({ request, memory: request, header }, () => [{ ratelimits: FREE }]);
  return decision.outcome === "refuse" ? toResponse(decision) : NextResponse.next();
}

/** An automatic limit that is named takes what it is named with. */
const FREE = [{ name: "requests", cost: 0 }];

export const config = { matcher: "/documents/:path*" };
