/** What a test of the contract sends to workerd besides its request. */

/** The name of its object, which ends with the options of the object as JSON. */
export const WORLD = "x-test-world";
/** Its time, Unix milliseconds. */
export const NOW = "x-test-now";
