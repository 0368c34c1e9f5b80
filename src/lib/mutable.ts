/** A type whose fields may be set while a new value is built. */
export type Mutable<T> = { -readonly [K in keyof T]: T[K] };
