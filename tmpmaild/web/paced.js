// Asks for one thing after another without running into the rate limit. Touches nothing of the page.

const LIMITED_SECONDS = 6; // when a refusal does not say how long it lasts

const pause = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()));
  });

// Return what `ask` resolves to, asked for when more than `spare` requests are left, and again when it was refused.
// `onWait(seconds)` is told of each wait. Once `signal` is aborted, nothing more is asked and its reason is thrown.
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
