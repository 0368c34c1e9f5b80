/** In place of memory that goes back to the system at once: plain buffers, which wait for the collector. */
import type { BodyMemory as Own } from "../../../../src/http/body-memory.js";

export class BodyMemory implements Pick<Own, "bytes" | "isFreed" | "grow" | "free"> {
  bytes: Uint8Array<ArrayBuffer>;
  isFreed = false;

  constructor(size: number) {
    this.bytes = new Uint8Array(size);
  }

  grow(size: number): void {
    const grown = new Uint8Array(size);
    grown.set(this.bytes);
    this.bytes = grown;
  }

  free(): number {
    const { length } = this.bytes;
    this.bytes = new Uint8Array(0);
    this.isFreed = true;
    return length;
  }
}
