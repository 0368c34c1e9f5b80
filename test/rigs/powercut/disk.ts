/**
 * A disk that forgets at a power cut: what was synced is there; of what was written since, any part may be, torn at
 * sectors. Directory entries count as there once the file was written to. What this leaves out: disks that lie about a
 * sync, and file systems that lose synced data.
 *
 * What a failed sync did not write is never written, as with Linux: its pages count as clean from then on, and programs
 * go on reading them from memory. Only writing them again helps.
 */
import type { Dice } from "../../model/dice.js";
import type { Event } from "./record.js";

const SECTOR = 512;

type Change = Exclude<Event, { kind: "sync" | "unsynced" }>;

export interface Disk {
  apply(event: Event): void;
  /** What a power cut now may leave of each file. Absent: the file is not there. */
  cut(dice: Dice): Map<string, Buffer>;
}

/** @param files what the disk holds, all of it synced */
export function createDisk(files: ReadonlyMap<string, Buffer>): Disk {
  const durable = new Map<string, Content>([...files].map(([name, bytes]) => [name, contentOf(bytes)]));
  const pending = new Map<string, Change[]>();
  return {
    apply(event) {
      if (event.kind === "unsynced") {
        pending.delete(event.file);
        return;
      }
      if (event.kind !== "sync") {
        const list = pending.get(event.file);
        if (list === undefined) pending.set(event.file, [event]);
        else list.push(event);
        return;
      }
      const content = durable.get(event.file) ?? contentOf(Buffer.alloc(0));
      for (const change of pending.get(event.file) ?? []) perform(content, change, ALL);
      pending.delete(event.file);
      durable.set(event.file, content);
    },
    cut(dice) {
      const left = new Map<string, Buffer>();
      for (const name of new Set([...durable.keys(), ...pending.keys()])) {
        const known = durable.get(name);
        const changes = pending.get(name) ?? [];
        const content = contentOf(known === undefined ? Buffer.alloc(0) : known.bytes.subarray(0, known.size));
        const kept = choose(changes, dice);
        for (const [change, keeps] of kept) perform(content, change, keeps);
        if (known !== undefined || kept.length > 0) left.set(name, content.bytes.subarray(0, content.size));
      }
      return left;
    },
  };
}

/** Which sectors of a write reach the disk, by their place in it. */
type Keeps = (sector: number) => boolean;
const ALL: Keeps = () => true;

/** Nothing, everything, what came first, or any part; of what is kept, some is torn. */
function choose(changes: readonly Change[], dice: Dice): (readonly [Change, Keeps])[] {
  const kind = dice.below(5);
  if (kind === 0) return [];
  if (kind === 1) return changes.map((change) => [change, ALL]);
  const first =
    kind === 2 ? changes.slice(0, dice.below(changes.length + 1)) : dice.some(changes, dice.pick([0.1, 0.5, 0.9]));
  const torn = dice.pick([0, 0, 0.3, 1]);
  return first.map((change) => {
    if (!dice.chance(torn)) return [change, ALL];
    const whole = dice.below(16);
    const sectors = new Set(dice.some([0, 1, 2, 3, 4, 5, 6, 7, 8], 0.5));
    return [change, dice.chance(0.5) ? (sector) => sector < whole : (sector) => sectors.has(sector % 9)];
  });
}

interface Content {
  bytes: Buffer;
  size: number;
}

function contentOf(bytes: Buffer): Content {
  return { bytes: Buffer.from(bytes), size: bytes.length };
}

function perform(content: Content, change: Change, keeps: Keeps): void {
  if (change.kind === "remove") content.size = 0;
  else if (change.kind === "truncate") resize(content, change.size);
  else {
    const { offset, data } = change;
    if (keeps === ALL) return put(content, offset, data);
    for (let from = 0, sector = 0; from < data.length; sector++) {
      // Sectors lie at fixed places of the file, not of the write.
      const to = Math.min(data.length, from + SECTOR - ((offset + from) % SECTOR));
      if (keeps(sector)) put(content, offset + from, data.subarray(from, to));
      from = to;
    }
  }
}

function put(content: Content, offset: number, data: Buffer): void {
  if (offset + data.length > content.size) resize(content, offset + data.length);
  data.copy(content.bytes, offset);
}

/** What lies between the old end and the new reads as zeros. */
function resize(content: Content, size: number): void {
  if (size > content.bytes.length) {
    const grown = Buffer.alloc(Math.max(size, content.bytes.length * 2));
    content.bytes.copy(grown, 0, 0, content.size);
    content.bytes = grown;
  }
  if (size < content.size) content.bytes.fill(0, size, content.size);
  content.size = size;
}
