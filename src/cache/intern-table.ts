/** Small numbers for shared objects, each kept while it has a user. Knows nothing of the objects. The obvious twin is a Map. */

export interface InternTable<T> {
  /** The number of this object, for one more user; `undefined`: there are too many. */
  take(object: T): number | undefined;
  /** What a number in use stands for. */
  get(number: number): T | undefined;
  /** One user less; the last one frees the number. */
  release(number: number): void;
  clear(): void;
}

/** @param max the largest number given; the least is 0 */
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
