// What a browser may lack, or refuse as with cookies blocked, and what takes its place. Touches nothing of the page.

const unstored = {};

// Return what `ask` returns; nothing where the browser refuses it.
function tryTo(ask) {
  try {
    return ask();
  } catch {
    return undefined;
  }
}

// Read and write what the browser keeps, or with "sessionStorage" this tab; where it may keep nothing, this tab still remembers.
export const get = (key, area = "localStorage") => unstored[area + key] ?? tryTo(() => window[area].getItem(key)) ?? null;

export function set(key, value, area = "localStorage") {
  try {
    window[area].setItem(key, value);
    delete unstored[area + key];
  } catch {
    unstored[area + key] = value;
  }
}

// Whether the list and a message are side by side, and whether there is room for the tools of a message beside its forms.
export const wide = matchMedia("(width >= 60rem) or ((width >= 48rem) and (height >= 30rem))");
export const roomy = matchMedia("(width >= 60rem)");

// Return the locks that tabs share, if there are any. A browser that may store nothing refuses each request for one.
export const locks = () => tryTo(() => navigator.locks);

// Return a channel to the other tabs, if there is one.
export const channel = (name) => tryTo(() => new BroadcastChannel(name));

// Run a task while no other tab runs it; without locks, at once.
export async function inTurn(name, task) {
  let running;
  await tryTo(() => navigator.locks.request(name, () => (running = task())))?.catch(() => {});
  return running ?? task();
}

// Whether the browser can notify, and whether it may.
export const canNotify = () => tryTo(() => isSecureContext && "permission" in Notification) ?? false;
export const mayNotify = () => tryTo(() => Notification.permission) === "granted";
export const askToNotify = async () => (await tryTo(() => Notification.requestPermission())?.catch(() => {})) === "granted";

// Whether the system's sheet to share is offered: on what is held in the hand.
export const canShare = () => Boolean(navigator.share) && matchMedia("(pointer: coarse)").matches;
export const share = (url) => navigator.share({ url }).catch(() => {});

// Put text on the clipboard, and tell whether that was done. Without HTTPS there is no such way.
export const writeClipboard = (text) => tryTo(() => navigator.clipboard.writeText(text))?.then(() => true, () => false);

// Register the service worker, if there may be one. Our policy (Content-Security-Policy) takes only the URL that is made here.
export function registerWorker() {
  const createScriptURL = () => `${new URL("worker.js", document.baseURI)}`;
  const maker = window.trustedTypes?.createPolicy("worker", { createScriptURL }) ?? { createScriptURL };
  tryTo(() => navigator.serviceWorker.register(maker.createScriptURL("")))?.catch(() => {});
}
