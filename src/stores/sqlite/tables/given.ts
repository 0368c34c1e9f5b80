/** Names the values of a statement that needs one twice: not every driver takes `?1`. */

/** Before a statement: its values, by these names. */
export const given = (...names: readonly string[]): string =>
  `WITH given (${names.join(", ")}) AS (VALUES (${names.map(() => "?").join(", ")}))`;

/** One of them. */
export const one = (name: string): string => `(SELECT ${name} FROM given)`;
