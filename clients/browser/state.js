// Keeps the inboxes in storage.session: in memory until the browser is closed, and inaccessible to pages.
//
// An inbox has `address`, `token`, `expires_at`, `extendable_until`, `skewMs` (how far the server's clock is ahead of ours),
// `site` (the host it was created for), `isPrivate` (created in a private window), and `after`, `unread` and `mail` for
// its messages.

const STEP_SECONDS = 3600;
const GAIN_SECONDS = 60; // the shortest lifetime extension that is offered
const SLACK_SECONDS = 2;

const area = chrome.storage.session;
export const leftMs = ({ expires_at, skewMs }) => Date.parse(expires_at) - skewMs - Date.now();

// Return the inboxes that have not expired, newest first.
export async function inboxes() {
  const { inboxes = [] } = await area.get("inboxes");
  return inboxes.filter((inbox) => leftMs(inbox) > 0);
}

// Replace the inboxes with the result of `alter`; a lock prevents concurrent changes by the popup and the background.
export function change(alter) {
  return navigator.locks.request("inboxes", async () => {
    const before = await inboxes();
    await area.set({ inboxes: alter(before) });
  });
}

export const keep = (inbox) => change((all) => [inbox, ...all]);
export const forget = (address) => change((all) => all.filter((one) => one.address !== address));
export const update = (address, alter) => change((all) => all.map((one) => (one.address === address ? alter(one) : one)));

// Return the notice for the user, or undefined: `{ key, values }` as in a Fault. Following inboxes has its own notice.
export const getNotice = async (what) => (await area.get(what))[what];
export const setNotice = (what, { key, values } = {}) => (key ? area.set({ [what]: { key, values } }) : area.remove(what));

// Return the longest possible extension of an inbox (its new lifetime in `seconds`, and its new expiry by our clock),
// or undefined if it cannot be extended.
export function extensionOf({ expires_at, extendable_until, skewMs }) {
  const [left, most] = [expires_at, extendable_until].map((time) => Math.floor((Date.parse(time) - skewMs - Date.now()) / 1000));
  if (most - left < GAIN_SECONDS) return undefined;
  const seconds = Math.min(left + STEP_SECONDS, most - SLACK_SECONDS);
  return { seconds, untilMs: Date.now() + 1000 * seconds };
}
