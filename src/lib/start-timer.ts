/** A timer that does not keep the process alive. */
export function startTimer(work: () => void, ms: number): ReturnType<typeof setTimeout> {
  const timer = setTimeout(work, ms);
  (timer as { unref?: () => void }).unref?.();
  return timer;
}
