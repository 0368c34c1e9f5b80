/** Closes what a test opens. */

/**
 * Runs a test with a function that opens what it asks for, and closes all of that in the end, also when the test fails.
 */
export async function closing<T extends { close?(): unknown }>(
  open: () => T | Promise<T>,
  body: (open: () => Promise<T>) => Promise<void>,
): Promise<void> {
  const opened: T[] = [];
  try {
    await body(async () => {
      const one = await open();
      opened.push(one);
      return one;
    });
  } finally {
    for (const one of opened) await one.close?.();
  }
}
