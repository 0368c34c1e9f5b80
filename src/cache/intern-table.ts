/** Small numbers for shared objects, each kept while it is in use. The reference implementation is a Map of counts. */

export interface InternTable<T> {
  /** The number of this object, whose use count is incremented; `undefined`: there are too many objects. */
  take(object: T): number | undefined;
  /** The object of a number in use. */
  get(number: number): T | undefined;
  /** Decrements the use count; at 0 the number is freed. */
  release(number: number): void;
  clear(): void;
}

/** @param max the largest number given; the smallest is 0 */
export function createInternTable<T>(max: number): InternTable<T> {
  const numbers = new Map<T, number>();
  let objects: (T | undefined)[] = [];
  let uses: number[] = [];
  let free: number[] = [];
  return {
    take(object) {
      let number = numbers.get(object);
      if (number === undefined) {
        number = free.pop() ?? objects.length;
        if (number > max) return undefined;
        numbers.set(object, number);
        objects[number] = object;
        uses[number] = 0;
      }
      uses[number] = (uses[number] as number) + 1;
      return number;
    },
    get: (number) => objects[number],
    release(number) {
      const left = (uses[number] as number) - 1;
      uses[number] = left;
      if (left > 0) return;
      numbers.delete(objects[number] as T);
      objects[number] = undefined;
      free.push(number);
    },
    clear() {
      numbers.clear();
      [objects, uses, free] = [[], [], []];
    },
  };
}
