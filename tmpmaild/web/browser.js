// Browser features that may be missing or blocked (for example when cookies are blocked), and their fallbacks. Does not
// access page elements.

const unstored = {};

// Return the result of `ask`, or undefined if it throws.
function tryTo(ask) {
  try {
    return ask();
  } catch {
    return undefined;
  }
}

// Read and write the browser's storage; falls back to memory in this tab if storage is blocked.
export const get = (key, area = "localStorage") => unstored[area + key] ?? tryTo(() => window[area].getItem(key)) ?? null;

export function set(key, value, area = "localStorage") {
  try {
    window[area].setItem(key, value);
    delete unstored[area + key];
  } catch {
    unstored[area + key] = value;
  }
}

// Whether the list and a message are shown side by side, and whether a message's tools fit next to its tabs.
export const wide = matchMedia("(width >= 60rem) or ((width >= 48rem) and (height >= 30rem))");
export const roomy = matchMedia("(width >= 60rem)");

// Return the locks that tabs share, if available. A browser with blocked storage rejects every lock request.
export const locks = () => tryTo(() => navigator.locks);

// Return a channel to the other tabs, if available.
export const channel = (name) => tryTo(() => new BroadcastChannel(name));

// Run a task while no other tab runs it; without locks, run it immediately.
export async function inTurn(name, task) {
  let running;
  await tryTo(() => navigator.locks.request(name, () => (running = task())))?.catch(() => {});
  return running ?? task();
}

// Whether the browser supports notifications, and whether it has permission to show them.
export const canNotify = () => tryTo(() => isSecureContext && "permission" in Notification) ?? false;
export const mayNotify = () => tryTo(() => Notification.permission) === "granted";
export const askToNotify = async () => (await tryTo(() => Notification.requestPermission())?.catch(() => {})) === "granted";

// Whether to offer the system's share sheet: only on touch devices.
export const canShare = () => Boolean(navigator.share) && matchMedia("(pointer: coarse)").matches;
export const share = (url) => navigator.share({ url }).catch(() => {});

// Copy text to the clipboard, which requires HTTPS; resolves to true if it succeeded.
export const writeClipboard = (text) => tryTo(() => navigator.clipboard.writeText(text))?.then(() => true, () => false);

// Register the service worker, if the browser allows it. Our Content-Security-Policy allows only the script URL that is
// created here.
export function registerWorker() {
  const createScriptURL = () => `${new URL("worker.js", document.baseURI)}`;
  const maker = window.trustedTypes?.createPolicy("worker", { createScriptURL }) ?? { createScriptURL };
  tryTo(() => navigator.serviceWorker.register(maker.createScriptURL("")))?.catch(() => {});
}
