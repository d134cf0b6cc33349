// Keeps the inboxes in storage.session: in memory, gone with the browser, out of the reach of pages.
//
// An inbox has `address`, `token`, `expires_at`, `extendable_until`, `skewMs`, by which the server's clock is ahead of ours,
// `site`, the host it was made for, `isPrivate`, for a private window, and of its mail `after`, `unread` and `mail`.

const STEP_SECONDS = 3600;
const GAIN_SECONDS = 60; // an extension worth its button
const SLACK_SECONDS = 2;

const area = chrome.storage.session;
export const leftMs = ({ expires_at, skewMs }) => Date.parse(expires_at) - skewMs - Date.now();

// Return the inboxes that have not expired, newest first.
export async function inboxes() {
  const { inboxes = [] } = await area.get("inboxes");
  return inboxes.filter((inbox) => leftMs(inbox) > 0);
}

// Replace the inboxes by what `alter` makes of them; popup and background take turns.
export function change(alter) {
  return navigator.locks.request("inboxes", async () => {
    const before = await inboxes();
    await area.set({ inboxes: alter(before) });
  });
}

export const keep = (inbox) => change((all) => [inbox, ...all]);
export const forget = (address) => change((all) => all.filter((one) => one.address !== address));
export const update = (address, alter) => change((all) => all.map((one) => (one.address === address ? alter(one) : one)));

// Return what the person is to be told, if anything: `{ key, values }` as in a Fault. What follows inboxes has its own.
export const told = async (what) => (await area.get(what))[what];
export const tell = (what, { key, values } = {}) => (key ? area.set({ [what]: { key, values } }) : area.remove(what));

// Return how an inbox can be made to live longer: by how many `seconds` from now, until when by our clock. Nothing if it cannot.
export function extensionOf({ expires_at, extendable_until, skewMs }) {
  const [left, most] = [expires_at, extendable_until].map((time) => Math.floor((Date.parse(time) - skewMs - Date.now()) / 1000));
  if (most - left < GAIN_SECONDS) return undefined;
  const seconds = Math.min(left + STEP_SECONDS, most - SLACK_SECONDS);
  return { seconds, untilMs: Date.now() + 1000 * seconds };
}
