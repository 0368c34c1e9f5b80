/** A table whose rows can be read early. */
export interface Prefetchable {
  /** Reads a row only to have it in the processor's cache. @param row any number, of a row that is there or not @returns an integer without meaning */
  prefetch(row: number): number;
}
