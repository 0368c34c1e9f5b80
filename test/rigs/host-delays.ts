/** How late the host itself is, by which a rig's bounds on times give way: a shared machine may stop for seconds. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";

const RESOLUTION_MS = 10;

export interface HostDelays {
  /** The longest that a turn of the event loop was late, or a probe took, since the last call; milliseconds. */
  worst(): number;
  stop(): Promise<void>;
}

/** @param probe what needs but a moment on a quiet host; while it fails it tells nothing */
export function watchHost(probe: () => Promise<unknown>): HostDelays {
  const turns = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  turns.enable();
  let slowest = 0;
  let isStopping = false;
  const probing = (async () => {
    while (!isStopping) {
      const began = performance.now();
      const isDone = await probe().then(
        () => true,
        () => false,
      );
      if (isDone) slowest = Math.max(slowest, performance.now() - began);
      await pause(20);
    }
  })();
  return {
    worst() {
      const late = Math.max(0, turns.max / 1e6 - RESOLUTION_MS);
      const worst = Math.max(slowest, late);
      slowest = 0;
      turns.reset();
      return worst;
    },
    async stop() {
      isStopping = true;
      turns.disable();
      await probing;
    },
  };
}
