/** Handles requests of a `node:http` server: one at a time for each connection. */
import type { createClientAddress } from "../client-address.js";
import type { Service } from "../service.js";
import type { Connection, RequestSlot } from "./connection.js";
import type { Connections } from "./connections.js";
import { isShort } from "../body.js";
import { CLOSING, declaredBytes, type NodeRequest, type NodeResponse, NONE, send, toIncoming } from "./node-request.js";

/** What the server or listener decides. */
export interface RequestHandlerOptions {
  readonly clientAddressOf: ReturnType<typeof createClientAddress>;
  /** Whether the server is closing: each response then ends its connection. */
  readonly isClosing: () => boolean;
}

/** @returns a function that handles a request. `wantsContinue`: the client waits for `100 Continue` before its body */
export function createRequestHandler(
  service: Service,
  connections: Connections,
  { clientAddressOf, isClosing }: RequestHandlerOptions,
): (request: NodeRequest, response: NodeResponse, wantsContinue: boolean) => void {
  return (request, response, wantsContinue) => {
    const { headers } = request;
    const socket = request.socket as NodeRequest["socket"] & Connection;
    const declared = declaredBytes(request);
    const hold = service.arrive(headers["authorization"] as string | undefined, () => socket.destroy());
    const serve = async ({ onReading, onPart, goOn, isLast, answered, end }: RequestSlot): Promise<void> => {
      let isAnswered = false;
      response.on("close", () => {
        end();
        // A request in progress continues, and keeps its memory until its answer.
        if (isAnswered) hold.release();
      });
      const clientAddress = clientAddressOf(socket.remoteAddress, headers["x-forwarded-for"]);
      const outgoing = await service.answer(
        toIncoming(request, response, { clientAddress, wantsContinue, hold, onReading, onPart, goOn }),
        hold,
      );
      // A destroyed socket emits no further event.
      if (socket.destroyed) {
        hold.release();
        return;
      }
      // A client that waits for `100 Continue` and is refused sends no body, so the connection cannot be reused.
      const isEnd = isClosing() || isLast() || (wantsContinue && outgoing.status !== 200);
      send(request, response, outgoing, isEnd ? CLOSING : NONE, { onPart, goOn });
      isAnswered = true;
      answered();
    };
    const fail = (): void => {
      hold.release();
      request.destroy();
    };
    connections.begin(socket, {
      request,
      hold,
      isLong: !isShort(declared),
      serve: (slot) => void serve(slot).catch(fail),
    });
  };
}
