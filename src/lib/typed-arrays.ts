/** Growing of typed arrays. */

/** A copy with `length` elements, at least as many as before; the new ones are 0. */
export function widened<T extends Int32Array<ArrayBuffer> | Float64Array<ArrayBuffer> | Uint8Array<ArrayBuffer>>(
  array: T,
  length: number,
): T {
  const wider = new (array.constructor as new (length: number) => T)(length);
  wider.set(array);
  return wider;
}
