/** A clock that a test sets, in place of the platform's. To be imported before what reads the time. */
const read = Date.now.bind(Date);
let set: number | undefined;

Date.now = () => set ?? read();

/** @param now Unix milliseconds */
export function setClock(now: number): void {
  set = now;
}
