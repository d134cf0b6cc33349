// Sends requests one after another within the rate limit. Does not access page elements.

const LIMITED_SECONDS = 6; // used if a refusal does not specify when to retry

const pause = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()));
  });

// Return the result of `ask`. It is called as soon as the rate limit allows more than `spare` requests, and again after
// each refusal. `onWait(seconds)` is called for each wait. Once `signal` is aborted, no more requests are sent, and the
// abort reason is thrown.
export async function whenAllowed(api, ask, { spare = 0, signal, onWait } = {}) {
  for (let ms = api.msUntilLeft(spare + 1); ; ) {
    if (ms > 0) {
      onWait?.(Math.ceil(ms / 1000));
      await pause(ms, signal);
    }
    signal?.throwIfAborted();
    try {
      return await ask();
    } catch (error) {
      if (error.status !== 429) throw error;
      ms = 1000 * (error.retryAfterSeconds || LIMITED_SECONDS);
    }
  }
}
